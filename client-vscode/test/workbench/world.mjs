// What the tests are run against: the archive of the extension, the probe, interpreters, processes.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { REPOSITORY } from './harness.mjs';

const CLIENT = path.join(REPOSITORY, 'client-vscode');
// The environment that tests/run made: with torch.
const PYTHON = process.env.TEST_PYTHON ?? path.join(REPOSITORY, '.venv', 'tests', 'bin', 'python');

/** The archive that npm run package made. */
export function vsix() {
  const file = path.join(CLIENT, 'profile-neuron.vsix');
  assert.ok(fs.existsSync(file), `${file} is not there; npm run package makes it`);
  return file;
}

/** An archive of an extension that is a folder below test. */
export function extension(name) {
  const folder = path.join(CLIENT, 'test', name);
  const file = path.join(CLIENT, 'build', `${path.basename(name)}.vsix`);
  const vsce = path.join(CLIENT, 'node_modules', '@vscode', 'vsce', 'vsce');
  const unasked = ['--no-dependencies', '--allow-missing-repository', '--skip-license'];
  fs.mkdirSync(path.dirname(file), { recursive: true });
  execFileSync(process.execPath, [vsce, 'package', ...unasked, '--out', file], { cwd: folder, stdio: 'pipe' });
  return file;
}

/** A Python with torch and without anything of ours, made in a folder. */
export function interpreter(folder) {
  const python = execFileSync(PYTHON, ['-m', 'tests.interpreters', folder, '--torch'], {
    cwd: REPOSITORY,
    encoding: 'utf8',
  }).trim();
  return { python, bin: path.dirname(python) };
}

/** The variables that give a process the stand-in device. */
export function standIn(mode = 'kernels', more = {}) {
  const code =
    'import json, sys; from tests.standin import environment; print(json.dumps(environment(sys.argv[1], **json.loads(sys.argv[2]))))';
  const said = execFileSync(PYTHON, ['-c', code, mode, JSON.stringify(more)], { cwd: REPOSITORY, encoding: 'utf8' });
  return JSON.parse(said);
}

/** A port of loopback that nobody listens at. */
export function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Processes that were started by an editor, with such a command line: id and command line. */
export function ours(home, command) {
  return fs
    .readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) =>
      read(`/proc/${name}/environ`)
        .split('\0')
        .includes(`PROBE_FILE=${home.at('probe.json')}`),
    )
    .flatMap((name) => processOf(Number(name)) ?? [])
    .filter((found) => command.test(found.command));
}

/** A process; nothing where it ended, also where nobody has reaped it. */
function processOf(id) {
  const stat = read(`/proc/${id}/stat`);
  const [state] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (!state || state === 'Z') return undefined;
  return { id, command: read(`/proc/${id}/cmdline`).split('\0').join(' ').trim() };
}

function read(file) {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
