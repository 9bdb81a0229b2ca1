// A decoder block on the stand-in device: times of a NeuronCore in the workbench, and the way to Neuron Explorer.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, before, test } from 'node:test';
import path from 'node:path';
import { COLD_MS, Home, REPOSITORY, VERSION } from './harness.mjs';
import { extension, freePort, interpreter, standIn, vsix } from './world.mjs';

const DEVICE = /^[\d.]+ (ns|µs|ms|s) · <?\d+ % · [\d.×]+ ops?$/;
const TOTAL = /^[\d.]+ (ns|µs|ms|s) device/;
const OPEN = 'Open in Neuron Explorer';
const FILE = 'llama_block.py';

let home, editor, window, folder, ports;

before(
  async () => {
    home = new Home();
    ports = [await freePort(), await freePort()];
    home.path(interpreter(home.at('python')).bin);
    const device = standIn('kernels', {
      STANDIN_EXPLORER_PORTS: ports.join(),
      STANDIN_EXPLORER_DATA: home.at('explorer'),
      STANDIN_EXPLORER_LOG: home.at('explorer.log'),
    });
    home.settings(
      { 'profileNeuron.run.env': device },
      { 'profileNeuron.explorer.uiPort': ports[0], 'profileNeuron.explorer.apiPort': ports[1] },
    );
    // Ports are reached under their own numbers, as a forwarding over ssh has it, and not below the editor's address.
    home.variables.VSCODE_PROXY_URI = 'http://localhost:{{port}}';
    folder = home.workspace('neuron', {
      [FILE]: fs.readFileSync(path.join(REPOSITORY, 'samples', FILE), 'utf8'),
    });
    home.install(vsix());
    home.install(extension('workbench/probe'));
    editor = await home.start();
    window = await (await editor.open(folder)).ready();
  },
  { timeout: 180_000 },
);

after(async () => {
  try {
    await window?.close();
  } finally {
    await editor?.stop();
    home?.remove();
  }
});

const file = () => path.join(folder, FILE);

test('a save shows device time behind the lines and above the functions', async () => {
  await window.openFile(FILE);
  await window.until(
    () => window.ask('lenses', file()),
    (seen) => seen.length === 4,
  );
  await window.save();
  const lenses = await window.until(
    () => window.ask('lenses', file()),
    (seen) => seen.filter(({ title }) => TOTAL.test(title)).length === 4,
    2 * COLD_MS,
  );
  assert.equal(lenses.filter(({ title }) => title === OPEN).length, 4);
  const hints = await window.ask('hints', file());
  assert.ok(hints.length > 20, JSON.stringify(hints));
  for (const { label } of hints) assert.match(label, DEVICE);
  await window.goTo(50);
  const seen = await window.until(
    () => window.hints(),
    (found) => Object.keys(found).length >= 5,
  );
  for (const [line, text] of Object.entries(seen)) {
    assert.equal(text, hints.find((hint) => hint.line === Number(line))?.label, `line ${line}`);
  }
  await window.until(
    () => window.status(),
    (text) => /^Neuron ✓ [\d.]+ (µs|ms)$/.test(text),
  );
  await window.screenshot('neuron');
});

test('the lens to Neuron Explorer opens the page of the capture', async () => {
  await window.goTo(58);
  await window.lens(OPEN).first().click();
  const [page] = await window.until(
    () => window.pages,
    (pages) => pages.length > 0,
    COLD_MS,
  );
  const [ingested] = fs
    .readFileSync(home.at('explorer.log'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const name = ingested[ingested.indexOf('--display-name') + 1];
  // The oldest, in this guise of it, opens forwarded addresses without their path.
  const where = VERSION === 'oldest' ? '' : `profile/${name}`;
  assert.equal(page, `http://localhost:${ports[0]}/${where}`);
});

test('no request left this machine', () => {
  assert.deepEqual([...window.outside], []);
});
