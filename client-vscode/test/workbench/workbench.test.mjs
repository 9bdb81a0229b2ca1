// What a person sees and does in the workbench, on the CPU: one window for all of it, in this order.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { COLD_MS, Home, REPOSITORY, VERSION, until } from './harness.mjs';
import { EMOJI, FAILING, MODEL, waiting } from './sources.mjs';
import { extension, interpreter, ours, vsix } from './world.mjs';

const HINT = /^cpu [\d.]+ (ns|µs|ms|s) · <?\d+ % · \d+ ops?( [▲▼]\d+ %)?$/;
/** The same, of a line that may run several times. */
const LINE = /^cpu [\d.]+ (ns|µs|ms|s) · <?\d+ % · [\d.×]+ ops?$/;
const FRESH = /^cpu [\d.]+ (ns|µs|ms|s)/;

let home, editor, window, folder;

before(
  async () => {
    home = new Home();
    home.path(interpreter(home.at('python')).bin);
    home.settings({ 'profileNeuron.hints.minTime': '1ns', 'profileNeuron.hints.minShare': 0 });
    const pipe = home.at('pipe');
    execFileSync('mkfifo', [pipe]);
    folder = home.workspace('mein Modell 模型', {
      'model.py': MODEL,
      'emoji.py': EMOJI,
      'waits.py': waiting(pipe),
      'breaks.py': FAILING,
      'llama_block.py': fs.readFileSync(path.join(REPOSITORY, 'samples', 'llama_block.py'), 'utf8'),
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

const at = (name) => `${folder}/${name}`;
const linesOf = (seen) => Object.keys(seen).map(Number);
const shown = (fits, timeout) => window.until(() => window.hints(), fits, timeout);

/** Wait until the server answers with the hints that are on the screen, each at the end of its line. */
async function agree(name, seen) {
  const answer = await window.until(
    async () => ({ found: await window.ask('hints', at(name)), text: await window.ask('text', at(name)) }),
    ({ found }) => JSON.stringify(labels(found)) === JSON.stringify(seen),
  );
  const ends = answer.text.split(/\r?\n/).map((line) => line.length);
  for (const { line, column } of answer.found) assert.equal(column, ends[line - 1], `line ${line} of ${name}`);
}

function labels(found) {
  return Object.fromEntries(found.map(({ line, label }) => [line, label]));
}

async function undoAll(name, text) {
  await window.until(
    async () => {
      await window.page.keyboard.press('Control+Z');
      return window.ask('text', at(name));
    },
    (seen) => seen === text,
  );
}

test('opening a folder shows a lens above each marked function', async () => {
  await window.openFile('model.py');
  const lenses = await window.until(
    () => window.lenses(),
    (seen) => seen.length === 2,
  );
  assert.deepEqual(lenses, ['Profile on the CPU', 'Profile on the CPU']);
  assert.deepEqual(await window.hints(), {});
});

test('a save shows progress and then the answers of the server at their lines', async () => {
  await window.save();
  await window.progress('Profiling block').waitFor({ timeout: COLD_MS });
  const seen = await shown((hints) => linesOf(hints).length === 4, COLD_MS);
  assert.deepEqual(linesOf(seen), [12, 13, 14, 19]);
  for (const text of Object.values(seen)) assert.match(text, HINT);
  await agree('model.py', seen);
  const lenses = await window.until(
    () => window.lenses(),
    (titles) => titles.filter((title) => FRESH.test(title)).length === 2,
  );
  assert.equal(lenses[1], 'Re-profile');
  await window.progress('Profiling').first().waitFor({ state: 'hidden' });
});

test('bars show which lines are warm, and the status item what was measured last', async () => {
  const heat = await window.until(
    () => window.heat(),
    (seen) => linesOf(seen).length === 4,
  );
  assert.deepEqual(linesOf(heat), [12, 13, 14, 19]);
  for (const bar of Object.values(heat)) assert.match(bar, /^[1-5] solid$/);
  // All of the function's time is in one line.
  assert.equal(heat[19], '5 solid');
  await window.until(
    () => window.status(),
    (text) => /^cpu ✓ [\d.]+ (ns|µs|ms|s)$/.test(text),
  );
  await window.screenshot('fresh');
});

test('typing above moves the hints and the bars', async () => {
  const before = await window.hints();
  await window.goTo(5);
  await window.page.keyboard.type('# one more line\n');
  const moved = Object.fromEntries(Object.entries(before).map(([line, text]) => [Number(line) + 1, text]));
  await shown((hints) => JSON.stringify(hints) === JSON.stringify(moved));
  await agree('model.py', moved);
  await window.until(
    () => window.heat(),
    (heat) => linesOf(heat).join() === linesOf(moved).join(),
  );
  await undoAll('model.py', MODEL);
  await shown((hints) => JSON.stringify(hints) === JSON.stringify(before));
});

test('a changed line loses its hint and marks the others, and undo restores all', async () => {
  const before = await window.hints();
  await window.goTo(13, 21);
  await window.page.keyboard.type(' * 2');
  const stale = await shown((hints) => !hints[13] && /^~/.test(hints[12] ?? ''));
  assert.deepEqual(linesOf(stale), [12, 14, 19]);
  assert.match(stale[12], /^~cpu [\d.]+ \S+$/);
  assert.match(stale[14], /^~cpu [\d.]+ \S+$/);
  assert.equal(stale[19], before[19]);
  await window.until(
    () => window.lenses(),
    ([first]) => /\(edited since, /.test(first),
  );
  const heat = await window.until(
    () => window.heat(),
    (seen) => /dotted/.test(seen[12] ?? ''),
  );
  assert.deepEqual(linesOf(heat), [12, 14, 19]);
  assert.match(heat[19], /solid/);
  await window.screenshot('stale');
  await undoAll('model.py', MODEL);
  await shown((hints) => JSON.stringify(hints) === JSON.stringify(before));
});

test('the palette profiles the function at the cursor, whose file has CRLF and emoji', async () => {
  await window.openFile('emoji.py');
  await window.goTo(11);
  await window.command('Neuron Profile: Profile This Function');
  const seen = await shown((hints) => linesOf(hints).length === 3, COLD_MS);
  assert.deepEqual(linesOf(seen), [11, 12, 13]);
  for (const text of Object.values(seen)) assert.match(text, HINT);
  await agree('emoji.py', seen);
  assert.equal(await window.ask('text', at('emoji.py')), EMOJI);
});

test('a decoder block shows what its four functions cost on the CPU', async () => {
  await window.openFile('llama_block.py');
  await window.save();
  const titles = await window.until(
    () => window.ask('lenses', at('llama_block.py')).then((lenses) => lenses.map(({ title }) => title)),
    (seen) => seen.filter((title) => FRESH.test(title)).length === 4,
    2 * COLD_MS,
  );
  assert.deepEqual(
    titles.filter((title) => !FRESH.test(title)),
    Array(4).fill('Re-profile'),
  );
  const hints = await window.ask('hints', at('llama_block.py'));
  assert.ok(hints.length > 20, JSON.stringify(hints));
  for (const { label } of hints) assert.match(label, LINE);
  await window.goTo(50);
  const seen = await shown((found) => linesOf(found).length >= 5);
  for (const [line, text] of Object.entries(seen)) {
    assert.equal(text, hints.find((hint) => hint.line === Number(line))?.label, `line ${line}`);
  }
});

test('a run is cancelled from its lens', async () => {
  await window.openFile('waits.py');
  await window.goTo(7);
  await window.command('Neuron Profile: Profile This Function');
  await window.lens('Cancel').waitFor();
  await window.until(
    () => window.status(),
    (text) => /^Neuron|^cpu/.test(text) && !text.includes('✓'),
  );
  await window.screenshot('running');
  await window.lens('Cancel').click();
  const lenses = await window.until(
    () => window.lenses(),
    (seen) => !seen.includes('Cancel'),
  );
  assert.deepEqual(lenses, ['Cancelled', 'Profile again']);
  assert.deepEqual(await window.hints(), {});
});

test('a function that fails has a diagnostic where it raises and its numbers of before, marked', async () => {
  await window.openFile('breaks.py');
  await window.save();
  await shown((hints) => linesOf(hints).length === 3, COLD_MS);
  await window.goTo(13, 19);
  await window.page.keyboard.type(' @ x');
  await window.save();
  const [failed] = await window.until(
    () => window.lenses(),
    ([first]) => /failed/.test(first),
    COLD_MS,
  );
  assert.equal(failed, 'Profile failed: RuntimeError, line 13');
  const diagnostics = await window.until(
    () => window.ask('diagnostics', at('breaks.py')),
    (seen) => seen.length > 0,
  );
  assert.deepEqual(
    diagnostics.map(({ line, code }) => [line, code]),
    [[13, 'run-failed']],
  );
  assert.match(diagnostics[0].message, /RuntimeError/);
  await window.until(
    () => window.underlined(),
    (lines) => lines.includes(13),
  );
  // An editor asks for hints somewhat later than for lenses.
  const stale = await shown((hints) => !hints[13] && /^~/.test(hints[11] ?? ''));
  assert.deepEqual(linesOf(stale), [11, 12]);
  for (const text of Object.values(stale)) assert.match(text, /^~cpu [\d.]+ \S+$/);
  await window.screenshot('failed');
});

test('a server that is killed comes back with the results of before', async () => {
  await window.openFile('model.py');
  const before = await shown((hints) => linesOf(hints).length === 4);
  const [killed] = ours(home, / serve$/);
  process.kill(killed.id, 'SIGKILL');
  await window.until(
    () => ours(home, / serve$/),
    (found) => found.length === 1 && found[0].id !== killed.id,
  );
  await window.until(
    async () => window.ask('hints', at('model.py')).catch(() => []),
    (hints) => hints.length === 4,
  );
  await shown((hints) => JSON.stringify(hints) === JSON.stringify(before));
  await window.until(
    () => window.lenses(),
    (titles) => titles.filter((title) => FRESH.test(title)).length === 2,
  );
});

test('no request left this machine', () => {
  assert.deepEqual([...window.outside], []);
});

test('no process is left once the window is closed', async () => {
  await window.command('Neuron Profile: Profile This Function');
  await window.until(
    () => ours(home, /profile_neuron/),
    (found) => found.length > 1,
  );
  await window.close();
  // The oldest keeps the extension host for hours, for a window that may come back, and ends it with itself.
  if (VERSION === 'oldest') await editor.stop();
  await until(
    () => ours(home, /profile_neuron/),
    (found) => found.length === 0,
  );
});
