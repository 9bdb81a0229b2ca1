// What is inside of profile-neuron.vsix, and that it runs by itself. The archive is made anew, twice.

import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import Module, { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';

const CLIENT = path.resolve(import.meta.dirname, '..', '..');
const ARCHIVE = path.join(CLIENT, 'profile-neuron.vsix');
const LISTED = path.join(import.meta.dirname, 'files.txt');
const COMPILED = /\.(so|pyd|pyc|pyo|node|dll|dylib|exe|a|o|wasm)$/;

let folder, first, unpacked;

before(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'vsix-'));
  first = make();
  unpacked = path.join(folder, 'unpacked');
  execFileSync('python3', ['-m', 'zipfile', '-e', ARCHIVE, unpacked]);
});

after(() => fs.rmSync(folder, { recursive: true, force: true }));

/** The bytes of an archive that is made now, without network where that can be taken away. */
function make() {
  const cut = ['unshare', '--net'];
  const canCut = spawnSync(cut[0], [...cut.slice(1), 'true']).status === 0;
  const [command, ...args] = [...(canCut ? cut : []), 'npm', 'run', 'package'];
  execFileSync(command, args, { cwd: CLIENT, stdio: 'pipe' });
  return fs.readFileSync(ARCHIVE);
}

function files() {
  const code = 'import sys, zipfile; print("\\n".join(sorted(zipfile.ZipFile(sys.argv[1]).namelist())))';
  return execFileSync('python3', ['-c', code, ARCHIVE], { encoding: 'utf8' });
}

test('the archive holds the files that are listed, and no other', () => {
  // UPDATE=1 writes the list anew, which is then to be read.
  if (process.env.UPDATE) fs.writeFileSync(LISTED, files());
  assert.deepEqual(files().split('\n'), fs.readFileSync(LISTED, 'utf8').split('\n'));
});

test('nothing inside is compiled', () => {
  assert.deepEqual(
    files()
      .split('\n')
      .filter((name) => COMPILED.test(name)),
    [],
  );
  const programs = files()
    .trim()
    .split('\n')
    .filter((name) => fs.readFileSync(path.join(unpacked, name)).includes('\x7fELF'));
  assert.deepEqual(programs, []);
});

test('the licence of each package inside is there', () => {
  const licences = fs.readFileSync(path.join(unpacked, 'extension', 'THIRD_PARTY_LICENSES.txt'), 'utf8');
  const vendored = [...fs.readFileSync(path.join(CLIENT, 'vendor.txt'), 'utf8').matchAll(/^([\w.-]+)==(\S+)/gm)];
  assert.equal(vendored.length, 8);
  for (const [, name, version] of vendored) assert.ok(licences.includes(`\n${name} ${version} (Python)\n`), name);
  for (const name of [
    'vscode-languageclient',
    'vscode-jsonrpc',
    'vscode-languageserver-protocol',
    'vscode-languageserver-types',
  ]) {
    assert.match(licences, new RegExp(`\\n${name} [\\d.]+ \\(npm\\)\\n=+\\n\\n.*\\w`, 's'), name);
  }
  const modules = fs
    .readdirSync(path.join(unpacked, 'extension', 'bundled', 'libs'))
    .filter((name) => !/\.dist-info$/.test(name));
  assert.deepEqual(modules.sort(), [
    'attr',
    'attrs',
    'cattr',
    'cattrs',
    'exceptiongroup',
    'lsprotocol',
    'msgpack',
    'profile_neuron',
    'pygls',
    'typing_extensions.py',
    'watchdog',
  ]);
});

test('two builds are equal in each byte', () => {
  assert.ok(first.equals(make()));
});

test('the server inside answers a Python that has nothing installed', { timeout: 60_000 }, async () => {
  const python = path.join(folder, 'bare', 'bin', 'python');
  execFileSync('python3', ['-m', 'venv', '--without-pip', path.join(folder, 'bare')]);
  const answer = await initialize(serverCommand(python, path.join(unpacked, 'extension')));
  assert.equal(answer.result.serverInfo.name, 'profile-neuron');
  assert.ok(answer.result.capabilities.inlayHintProvider);
});

/** Command and arguments as src/server.ts makes them. */
function serverCommand(python, extension) {
  const built = path.join(folder, 'server.cjs');
  const esbuild = path.join(CLIENT, 'node_modules', '.bin', 'esbuild');
  const options = ['--bundle', '--platform=node', '--format=cjs', '--external:vscode', `--outfile=${built}`];
  execFileSync(esbuild, [path.join(CLIENT, 'src', 'server.ts'), ...options], { stdio: 'pipe' });
  const {
    command,
    args,
    options: how,
  } = withoutEditor(() => createRequire(built)(built)).serverCommand(python, extension);
  return { command, args, cwd: how.cwd };
}

/** Load a module that imports vscode where there is none: everything of it is a class without members. */
function withoutEditor(load) {
  const nothing = new Proxy(class {}, { get: (target, name) => (name === 'prototype' ? target.prototype : nothing) });
  const usual = Module._load;
  Module._load = (name, ...rest) => (name === 'vscode' ? nothing : usual(name, ...rest));
  try {
    return load();
  } finally {
    Module._load = usual;
  }
}

/** The server's answer to initialize. */
async function initialize({ command, args, cwd }) {
  const child = spawn(command, args, { cwd, env: { HOME: folder, PATH: '/usr/bin:/bin' } });
  let printed = '';
  child.stderr.on('data', (data) => (printed += data));
  const params = {
    processId: process.pid,
    rootUri: null,
    capabilities: {},
    initializationOptions: { trusted: false, fallbackInterpreter: '' },
  };
  const request = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
  child.stdin.write(`Content-Length: ${Buffer.byteLength(request)}\r\n\r\n${request}`);
  try {
    let received = '';
    for await (const data of child.stdout) {
      received += data;
      const answer = /\r\n\r\n(\{.*"id": ?1.*\})/.exec(received)?.[1];
      if (answer) return JSON.parse(answer);
    }
    throw new Error(`the server ended: ${printed}`);
  } finally {
    child.kill();
  }
}
