// Makes profile-neuron.vsix of what npm ci and npm run vendor brought, without network. What goes in is gathered in
// a folder of its own first; with fixed times and an order by name, equal sources then give equal bytes.

import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const ROOT = path.dirname(import.meta.dirname);
const REPOSITORY = path.dirname(ROOT);
const STAGE = path.join(ROOT, 'build', 'extension');
const BUNDLE = path.join('dist', 'extension.js');
const META = path.join('dist', 'meta.json');
const LIBS = path.join('bundled', 'libs');

const SHIPPED = ['package.nls.json', 'LICENSE', 'README.md', 'CHANGELOG.md', 'media', 'bundled', BUNDLE];

main();

function main() {
  if (!existsSync(path.join(ROOT, LIBS))) throw new Error(`${LIBS} is not there; npm run vendor fetches it`);
  run('npm', ['run', '--silent', 'build', '--', `--metafile=${META}`], ROOT);
  stage();
  const output = path.join(ROOT, 'profile-neuron.vsix');
  const vsce = path.join(ROOT, 'node_modules', '@vscode', 'vsce', 'vsce');
  // With SOURCE_DATE_EPOCH vsce sorts the files and gives all of them this time, which a zip holds as local time.
  const reproducible = { SOURCE_DATE_EPOCH: '315619200', TZ: 'UTC' };
  const unasked = ['--no-dependencies', '--allow-missing-repository', '--no-rewrite-relative-links'];
  run(process.execPath, [vsce, 'package', ...unasked, '--out', output], STAGE, reproducible);
}

function run(command, args, cwd, environment = {}) {
  const result = spawnSync(command, args, { cwd, stdio: 'inherit', env: { ...process.env, ...environment } });
  if (result.status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${result.status ?? result.signal}`);
}

function stage() {
  rmSync(STAGE, { recursive: true, force: true });
  mkdirSync(STAGE, { recursive: true });
  for (const name of SHIPPED) copy(path.join(ROOT, name), path.join(STAGE, name));
  copy(path.join(REPOSITORY, 'server', 'profile_neuron'), path.join(STAGE, LIBS, 'profile_neuron'));
  writeFileSync(path.join(STAGE, 'THIRD_PARTY_LICENSES.txt'), thirdPartyLicences());
  // The scripts and packages of development are not there; vsce would run the former.
  const { scripts: _, devDependencies: __, ...manifest } = JSON.parse(readFileSync(path.join(ROOT, 'package.json')));
  writeFileSync(path.join(STAGE, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  setModes(STAGE);
}

/** Equal whatever the umask was when the sources were checked out. */
function setModes(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    if (entry.isFile()) chmodSync(path.join(entry.parentPath, entry.name), 0o644);
  }
}

/** Copy a file or folder, without what Python and editors leave beside sources. */
function copy(from, to) {
  const isShipped = (file) => !/\.(pyc|swp)$|~$|\/__pycache__$|\/\.DS_Store$/.test(file);
  cpSync(from, to, { recursive: true, filter: isShipped });
}

/** The licences of every package that is inside: name, version and text, the Python ones first. */
function thirdPartyLicences() {
  const parts = [...pythonPackages(), ...npmPackages()].map(
    ({ name, licence }) => `${'='.repeat(80)}\n${name}\n${'='.repeat(80)}\n\n${licence.trim()}\n`,
  );
  return `Packages that are part of this extension, each with its licence.\n\n${parts.join('\n')}`;
}

function pythonPackages() {
  const libs = path.join(ROOT, LIBS);
  const distributions = readdirSync(libs).filter((name) => name.endsWith('.dist-info'));
  return distributions.sort().map((name) => ({
    name: `${name.replace('.dist-info', '').replace('-', ' ')} (Python)`,
    licence: texts(licences(path.join(libs, name)), /^(?!METADATA)/),
  }));
}

/** Where the licences of a distribution lie: in a folder of their own, in older ones beside its metadata. */
function licences(distribution) {
  const own = path.join(distribution, 'licenses');
  return existsSync(own) ? own : distribution;
}

/** The packages of which code is in the bundle, by what esbuild says it read. */
function npmPackages() {
  const inputs = Object.keys(JSON.parse(readFileSync(path.join(ROOT, META))).inputs);
  const folders = inputs.flatMap((file) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file) ?? []);
  return [...new Set(folders)].sort().map((folder) => {
    const { name, version } = JSON.parse(readFileSync(path.join(ROOT, folder, 'package.json')));
    return {
      name: `${name} ${version} (npm)`,
      licence: texts(path.join(ROOT, folder), /^(licen[cs]e|copying|notice)/i),
    };
  });
}

/** What the files of a folder with such names say. Raises where there are none. */
function texts(folder, names) {
  const found = readdirSync(folder)
    .filter((name) => names.test(name))
    .sort();
  if (found.length === 0) throw new Error(`${folder} holds no licence`);
  return found.map((name) => readFileSync(path.join(folder, name), 'utf8')).join('\n\n');
}
