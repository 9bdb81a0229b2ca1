// Which Python the server runs in. Nothing here knows the editor; what a file is, and running one, is given.

import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';

export interface Candidate {
  readonly path: string;
  /** Where it comes from, in words. */
  readonly source: string;
}

/** What has to be known of files. */
export interface Files {
  isProgram(file: string): boolean;
  realPath(file: string): string | undefined;
  linkOf(file: string): string | undefined;
}

/** What became of a Python that was tried. */
export type Probed = { readonly version: readonly [number, number] } | { readonly problem: string };
export type Probe = (python: string) => Promise<Probed>;

export interface Choice {
  /** The one to use; undefined for none. */
  readonly found: Candidate | undefined;
  /** Why each one before it was not taken, one text each. */
  readonly passedOver: readonly string[];
}

const OLDEST: readonly [number, number] = [3, 10];
const NAMES = ['python3', 'python3.14', 'python3.13', 'python3.12', 'python3.11', 'python3.10', 'python'];
const PROBE_LIMIT_MS = 10_000;
/** As many links as Linux follows. */
const MOST_LINKS = 40;

/**
 * What is on the PATH and lies outside of the workspace, the best first.
 *
 * It comes first even where the workspace is trusted: it can stay when trust or folders change, and one server serves
 * all folders. Where the workspace is not trusted there is nothing else that may be run.
 */
export function outside(searchPath: string, folders: readonly string[], files: Files): readonly Candidate[] {
  const isFit = ({ path: file }: Candidate) => isOutside(file, folders, files);
  return unique(allOnPath(NAMES, searchPath, files).filter(isFit));
}

/** What may be tried beside that in a workspace that is trusted; what a person chose comes first. */
export function inside(
  chosen: readonly Candidate[],
  searchPath: string,
  folders: readonly string[],
  files: Files,
): readonly Candidate[] {
  const ofFolders = folders.map((folder) => ({
    path: path.join(folder, '.venv', 'bin', 'python'),
    source: `the .venv of ${folder}`,
  }));
  const given = [...chosen, ...ofFolders].filter(({ path: file }) => path.isAbsolute(file) && files.isProgram(file));
  const onPath = allOnPath(NAMES, searchPath, files).filter(({ path: file }) => !isOutside(file, folders, files));
  return unique([...given, ...onPath]);
}

/** The Python that runs code where neither a setting nor a folder names one; empty for none. */
export function fallback(searchPath: string, folders: readonly string[], files: Files): string {
  const onPath = allOnPath(['python3'], searchPath, files);
  return onPath.find((candidate) => isOutside(candidate.path, folders, files))?.path ?? '';
}

/** The path that a setting means: it may begin with ~ or ${workspaceFolder}, or count from the folder. */
export function settingPath(setting: string, folder: string, searchPath: string, files: Files): string {
  const given = setting.replaceAll('${workspaceFolder}', folder);
  if (!given.includes(path.sep) && !given.startsWith('~')) {
    return allOnPath([given], searchPath, files)[0]?.path ?? given;
  }
  const home = /^~(?=\/|$)/;
  return path.resolve(folder, given.replace(home, os.homedir()));
}

/** The first that runs and is new enough; what was passed over earlier stays. */
export async function choose(
  tried: readonly Candidate[],
  probe: Probe,
  earlier: readonly string[] = [],
): Promise<Choice> {
  const passedOver = [...earlier];
  for (const candidate of tried) {
    const probed = await probe(candidate.path);
    const problem = 'problem' in probed ? probed.problem : tooOld(probed.version);
    if (problem === '') {
      return { found: candidate, passedOver };
    }
    passedOver.push(`${candidate.path} ${problem}`);
  }
  return { found: undefined, passedOver };
}

/** What to say where there is none: what was looked at, and what to do. */
export function noneFound(passedOver: readonly string[], isTrusted: boolean): string {
  const looked = passedOver.length > 0 ? ` (${passedOver.join('; ')})` : '';
  const where = isTrusted ? 'on the PATH' : 'on the PATH outside of this workspace, which is not trusted,';
  const other = isTrusted ? ', or name one in the setting profileNeuron.interpreter,' : ',';
  return (
    `Neuron Profile found no Python ${OLDEST.join('.')} or newer ${where} to start its server with${looked}; ` +
    `install one, such as with "apt install python3"${other} and run Restart Server`
  );
}

/** Ask a Python for its version: isolated, without site packages, and where no file of a workspace is. */
export function probe(python: string, limitMs = PROBE_LIMIT_MS): Promise<Probed> {
  return new Promise((resolve) => {
    const code = 'import sys; print("%d.%d" % sys.version_info[:2])';
    // A group of its own, so that what a wrapper started is ended with it.
    const child = spawn(python, ['-I', '-S', '-c', code], {
      cwd: '/',
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    let printed = '';
    let problem = '';
    const timer = setTimeout(() => {
      problem = `did not answer in ${limitMs / 1000} s`;
      end(child.pid);
      resolve({ problem });
    }, limitMs);
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed = (printed + text).slice(0, 100);
    });
    child.on('error', (error) => {
      clearTimeout(timer);
      resolve({ problem: `cannot be run: ${error.message}` });
    });
    child.on('close', () => {
      clearTimeout(timer);
      const version = /^(\d+)\.(\d+)\s*$/.exec(printed);
      resolve(version === null ? { problem: 'is no Python' } : { version: [Number(version[1]), Number(version[2])] });
    });
  });
}

export const realFiles: Files = {
  isProgram(file) {
    try {
      fs.accessSync(file, fs.constants.X_OK);
      return fs.statSync(file).isFile();
    } catch {
      return false;
    }
  },
  realPath(file) {
    try {
      return fs.realpathSync(file);
    } catch {
      return undefined;
    }
  },
  linkOf(file) {
    try {
      return fs.readlinkSync(file);
    } catch {
      return undefined;
    }
  },
};

function unique(found: readonly Candidate[]): readonly Candidate[] {
  return found.filter(({ path: file }, index) => found.findIndex((other) => other.path === file) === index);
}

function allOnPath(names: readonly string[], searchPath: string, files: Files): Candidate[] {
  // Relative folders, the empty one among them, would mean other files wherever a program is started.
  const folders = searchPath.split(path.delimiter).filter((folder) => path.isAbsolute(folder));
  return names
    .flatMap((name) => folders.map((folder) => ({ path: path.join(folder, name), source: `${name} on the PATH` })))
    .filter(({ path: file }) => files.isProgram(file));
}

/** Whether neither the file nor a link on the way to it lies in one of the folders. */
function isOutside(file: string, folders: readonly string[], files: Files): boolean {
  const real = folders.map((folder) => files.realPath(folder) ?? folder);
  let step: string | undefined = file;
  for (let count = 0; step !== undefined; count++) {
    const parent = files.realPath(path.dirname(step));
    if (parent === undefined || count > MOST_LINKS) {
      return false;
    }
    const here: string = path.join(parent, path.basename(step));
    if ([...folders, ...real].some((folder) => isBelow(here, folder) || isBelow(step ?? here, folder))) {
      return false;
    }
    const link = files.linkOf(here);
    step = link === undefined ? undefined : path.resolve(parent, link);
  }
  return true;
}

function isBelow(file: string, folder: string): boolean {
  const way = path.relative(folder, file);
  return way === '' || (!path.isAbsolute(way) && way !== '..' && !way.startsWith(`..${path.sep}`));
}

function tooOld(version: readonly [number, number]): string {
  const [major, minor] = version;
  const isNewEnough = major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);
  return isNewEnough ? '' : `is Python ${major}.${minor}`;
}

function end(pid: number | undefined): void {
  try {
    process.kill(-(pid ?? NaN), 'SIGKILL');
  } catch {
    // It ended by itself.
  }
}
