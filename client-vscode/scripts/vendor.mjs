// Fetches the Python packages that the server needs into bundled/libs: exactly the files that vendor.txt names by
// their hashes, and of them only what a Python of any version and system can use.

import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';

const ROOT = path.dirname(import.meta.dirname);
const LIBS = path.join(ROOT, 'bundled', 'libs');

// One wheel of each package, whatever machine this is; no code of a package is executed to install a wheel.
const PLATFORM = ['--only-binary=:all:', '--platform', 'manylinux2014_x86_64', '--implementation', 'cp'];
// The oldest that the server runs in, so that what needs a newer one is refused.
const PYTHON = ['--python-version', '3.10'];

main();

function main() {
  const fresh = mkdtempSync(path.join(ROOT, '.vendor-'));
  try {
    install(fresh);
    prune(fresh);
    rmSync(LIBS, { recursive: true, force: true });
    mkdirSync(path.dirname(LIBS), { recursive: true });
    renameSync(fresh, LIBS);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

function install(folder) {
  const python = process.env.PYTHON ?? 'python3';
  const lock = ['--require-hashes', '--requirement', path.join(ROOT, 'vendor.txt'), '--no-deps'];
  const result = spawnSync(
    python,
    ['-m', 'pip', 'install', '--quiet', '--no-compile', '--target', folder, ...lock, ...PLATFORM, ...PYTHON],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  );
  if (result.status !== 0) {
    throw new Error(`${python} -m pip did not install vendor.txt; PYTHON names another Python that has pip`);
  }
}

/** Remove what is no source, type marker or licence, and then the folders that are empty. */
function prune(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const at = path.join(folder, entry.name);
    if (entry.isDirectory()) {
      prune(at);
      if (readdirSync(at).length === 0) rmSync(at, { recursive: true });
    } else if (!isKept(at)) {
      rmSync(at);
    }
  }
}

function isKept(file) {
  const name = path.basename(file);
  // METADATA names the package, its version and its licence.
  // Licences lie in a folder of their own, in older packages beside it.
  const ofDistribution = /\.dist-info\/(METADATA|licenses\/.*|LICENSE|COPYING|AUTHORS)$/.test(file);
  return name.endsWith('.py') || name === 'py.typed' || ofDistribution;
}
