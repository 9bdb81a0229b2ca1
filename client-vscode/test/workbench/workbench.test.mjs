// What a person sees and does in the workbench, on the CPU: one window for all of it, in this order.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { after, before, test } from 'node:test';
import { COLD_MS, Home, SOON_MS } from './harness.mjs';
import { EMOJI, FAILING, MODEL, waiting } from './sources.mjs';
import { extension, interpreter, vsix } from './world.mjs';

const CPU = /^cpu \S+ (ns|µs|ms|s) · wall /;
const HINT = /^cpu [\d.]+ (ns|µs|ms|s) · <?\d+ % · \d+ ops?( [▲▼]\d+ %)?$/;

let home, editor, window, folder;

before(
  async () => {
    home = new Home();
    const python = interpreter(home.at('python'));
    home.path(python.bin);
    home.settings({ 'profileNeuron.hints.minTime': '1ns', 'profileNeuron.hints.minShare': 0 });
    const pipe = home.at('pipe');
    execFileSync('mkfifo', [pipe]);
    folder = home.workspace('mein Modell 模型', {
      'model.py': MODEL,
      'emoji.py': EMOJI,
      'waits.py': waiting(pipe),
      'breaks.py': FAILING,
    });
    home.install(vsix());
    home.install(extension('probe'));
    editor = await home.start();
    window = await (await editor.open(folder)).ready();
  },
  { timeout: 180_000 },
);

after(async () => {
  await window?.close();
  await editor?.stop();
  home?.remove();
});

const at = (name) => `${folder}/${name}`;
const lines = (hints) => Object.keys(hints).map(Number);

test('opening a folder shows a lens above each marked function', async () => {
  await window.openFile('model.py');
  assert.deepEqual(
    await window.until(
      () => window.lenses(),
      (seen) => seen.length === 2,
    ),
    ['Profile on the CPU', 'Profile on the CPU'],
  );
  assert.deepEqual(await window.hints(), {});
});

test('a save shows progress and then the answers of the server at their lines', async () => {
  await window.save();
  const progress = window.message(/Profiling|profil/i).first();
  await progress.waitFor({ timeout: COLD_MS });
  const seen = await window.until(
    () => window.hints(),
    (hints) => lines(hints).length === 4,
    COLD_MS,
  );
  assert.deepEqual(lines(seen), [12, 13, 14, 19]);
  for (const text of Object.values(seen)) assert.match(text, HINT);
  const answered = await window.ask('hints', at('model.py'));
  assert.deepEqual(seen, Object.fromEntries(answered.map(({ line, label }) => [line, label])));
  const ends = MODEL.split('\n');
  for (const { line, column } of answered) assert.equal(column, ends[line - 1].length);
  const lenses = await window.lenses();
  assert.match(lenses[0], CPU);
  assert.equal(lenses[1], 'Re-profile');
  await window.screenshot('fresh');
});
