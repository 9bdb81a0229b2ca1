import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { choose, fallback, inside, noneFound, outside, probe, realFiles, settingPath } from '../../src/python';

let root: string;

beforeEach(() => {
  root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'python-')));
});

afterEach(() => {
  fs.rmSync(root, { recursive: true });
});

function program(file: string, text = '#!/bin/sh\n'): string {
  const full = path.join(root, file);
  fs.mkdirSync(path.dirname(full), { recursive: true });
  fs.writeFileSync(full, text, { mode: 0o755 });
  return full;
}

function link(file: string, to: string): string {
  const full = path.join(root, file);
  fs.mkdirSync(path.dirname(full), { recursive: true });
  fs.symlinkSync(to, full);
  return full;
}

function paths(...folders: string[]): string {
  return folders.map((folder) => (folder.startsWith('.') ? folder : path.join(root, folder))).join(':');
}

function found(searchPath: string, ...folders: string[]): string[] {
  const inRoot = folders.map((folder) => path.join(root, folder));
  return outside(searchPath, inRoot, realFiles).map((candidate) => path.relative(root, candidate.path));
}

describe('what may be run where nothing is trusted', () => {
  test('a Python on the PATH inside of the workspace is left out', () => {
    program('work/.venv/bin/python3');
    program('usr/bin/python3');
    expect(found(paths('work/.venv/bin', 'usr/bin'), 'work')).toEqual(['usr/bin/python3']);
  });

  test('a folder of the PATH that leads into the workspace is left out', () => {
    program('work/tools/python3');
    link('opt', path.join(root, 'work/tools'));
    expect(found(paths('opt'), 'work')).toEqual([]);
  });

  test('a link into the workspace is left out, even one that leads out again', () => {
    program('work/python3');
    link('usr/bin/python3', path.join(root, 'work/python3'));
    const real = program('usr/lib/python3.11');
    link('work/way', real);
    link('usr/bin/python', path.join(root, 'work/way'));
    expect(found(paths('usr/bin'), 'work')).toEqual([]);
  });

  test('a workspace that is reached by a link counts as what it is', () => {
    program('data/project/bin/python3');
    link('home/project', path.join(root, 'data/project'));
    expect(found(paths('data/project/bin'), 'home/project')).toEqual([]);
  });

  test('links that lead in a circle are left out', () => {
    program('usr/bin/python');
    link('a/python3', path.join(root, 'b/python3'));
    link('b/python3', path.join(root, 'a/python3'));
    expect(found(paths('a', 'usr/bin'), 'work')).toEqual(['usr/bin/python']);
  });

  test('relative and empty entries of the PATH are left out', () => {
    const here = path.relative(process.cwd(), path.dirname(program('bin/python3')));
    expect(found(`${here}::.`, 'work')).toEqual([]);
  });

  test('a folder whose name begins like that of the workspace is outside', () => {
    program('work-tools/python3');
    program('work/..tools/python3');
    expect(found(paths('work-tools', 'work/..tools'), 'work')).toEqual(['work-tools/python3']);
  });

  test('files that cannot be executed, and folders, are left out', () => {
    program('bin/python3');
    fs.chmodSync(path.join(root, 'bin/python3'), 0o644);
    fs.mkdirSync(path.join(root, 'bin/python'));
    // Whoever is root may still not execute a file without any such right.
    expect(found(paths('bin'), 'work')).toEqual([]);
  });

  test('python3 comes before names with a version, and those before python', () => {
    for (const name of ['python', 'python3.12', 'python3']) {
      program(`bin/${name}`);
    }
    expect(found(paths('bin', 'bin'), 'work')).toEqual(['bin/python3', 'bin/python3.12', 'bin/python']);
  });

  test('the fallback is the first python3 outside of the workspace', () => {
    program('work/bin/python3');
    program('a/python3.12');
    program('b/python3');
    const folders = [path.join(root, 'work')];
    expect(fallback(paths('work/bin', 'a', 'b'), folders, realFiles)).toBe(path.join(root, 'b/python3'));
    expect(fallback(paths('work/bin', 'a'), folders, realFiles)).toBe('');
  });
});

test('in a trusted workspace come what a person chose, the .venv of each folder, and the PATH in it', () => {
  program('one/.venv/bin/python');
  program('work/bin/python3');
  const chosen = { path: program('env/bin/python'), source: 'the Python extension' };
  const gone = { path: path.join(root, 'gone'), source: 'the setting' };
  const folders = ['one', 'two', 'work'].map((folder) => path.join(root, folder));
  expect(inside([gone, chosen], paths('work/bin'), folders, realFiles)).toEqual([
    chosen,
    { path: path.join(root, 'one/.venv/bin/python'), source: `the .venv of ${path.join(root, 'one')}` },
    { path: path.join(root, 'work/bin/python3'), source: 'python3 on the PATH' },
  ]);
});

test('a setting counts from its folder, from the home folder, or is found on the PATH', () => {
  const onPath = program('bin/python3.12');
  const at = (setting: string) => settingPath(setting, '/code', path.dirname(onPath), realFiles);
  expect(at('env/bin/python')).toBe('/code/env/bin/python');
  expect(at('${workspaceFolder}/env/bin/python')).toBe('/code/env/bin/python');
  expect(at('~/env/bin/python')).toBe(path.join(os.homedir(), 'env/bin/python'));
  expect(at('/usr/bin/python3')).toBe('/usr/bin/python3');
  expect(at('python3.12')).toBe(onPath);
  expect(at('python9')).toBe('python9');
});

describe('which one is taken', () => {
  const all = ['/a', '/b', '/c'].map((file) => ({ path: file, source: 'python3 on the PATH' }));

  test('the first that is new enough', async () => {
    const versions: Record<string, [number, number]> = { '/a': [3, 9], '/b': [3, 10], '/c': [3, 13] };
    const choice = await choose(all, (file) => Promise.resolve({ version: versions[file]! }));
    expect(choice).toEqual({ found: all[1], passedOver: ['/a is Python 3.9'] });
  });

  test('a later major version is new enough, an earlier one is not', async () => {
    const versions: Record<string, [number, number]> = { '/a': [2, 18], '/b': [4, 0], '/c': [3, 13] };
    expect((await choose(all, (file) => Promise.resolve({ version: versions[file]! }))).found).toBe(all[1]);
  });

  test('none, with what is wrong with each', async () => {
    const choice = await choose(all.slice(0, 2), () => Promise.resolve({ problem: 'is no Python' }), [
      '/z is Python 3.8',
    ]);
    expect(choice).toEqual({
      found: undefined,
      passedOver: ['/z is Python 3.8', '/a is no Python', '/b is no Python'],
    });
  });

  test('where there is none the message names what was looked at and what to do', () => {
    expect(noneFound(['/a is Python 3.9'], true)).toBe(
      'Neuron Profile found no Python 3.10 or newer on the PATH to start its server with (/a is Python 3.9); ' +
        'install one, such as with "apt install python3", or name one in the setting profileNeuron.interpreter, ' +
        'and run Restart Server',
    );
    expect(noneFound([], false)).toContain('outside of this workspace, which is not trusted');
  });
});

describe('asking a Python for its version', () => {
  test('isolated, without site packages, in the root folder', async () => {
    const file = program('python3', `#!/bin/sh\necho "$PWD $1 $2 $3" > "${root}/asked"\necho 3.12\n`);
    expect(await probe(file)).toEqual({ version: [3, 12] });
    expect(fs.readFileSync(path.join(root, 'asked'), 'utf8')).toBe('/ -I -S -c\n');
  });

  test('a real one answers', async () => {
    const found = outside(process.env.PATH ?? '', [], realFiles)[0];
    expect(await probe(found!.path)).toMatchObject({ version: { 0: 3, length: 2 } });
  });

  test('what prints something else is no Python', async () => {
    expect(await probe(program('python3', '#!/bin/sh\necho hello\n'))).toEqual({ problem: 'is no Python' });
    expect(await probe(program('silent'))).toEqual({ problem: 'is no Python' });
  });

  test('what is not there cannot be run', async () => {
    expect(await probe(path.join(root, 'gone'))).toHaveProperty(
      'problem',
      expect.stringMatching(/^cannot be run: .*ENOENT/),
    );
  });

  test('what hangs is ended with all that it started', async () => {
    const pid = path.join(root, 'pid');
    const file = program('python3', `#!/bin/sh\nsleep 300 &\necho $! > ${pid}.new\nmv ${pid}.new ${pid}\nwait\n`);
    expect(await probe(file, 3000)).toEqual({ problem: 'did not answer in 3 s' });
    await expect.poll(() => fs.existsSync(pid), { timeout: 10_000 }).toBe(true);
    const child = Number(fs.readFileSync(pid, 'utf8'));
    await expect.poll(() => isGone(child), { timeout: 10_000 }).toBe(true);
  });
});

/** Ended, or ended without anybody to take notice. */
function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return fs.readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return true;
  }
}
