// Runs inside of the extension host: what providers answer at which position, commands, interpreters, captures.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const vscode = require('vscode');

const LONG_MS = 90_000;
const tests = new Map();

tests.set('each marked function of each folder has a lens', async () => {
  for (const name of ['first', 'second', 'third']) {
    await vscode.window.showTextDocument(await open(name));
    const lenses = await until(
      () => lensesOf(name),
      (seen) => seen.length === 2,
    );
    assert.deepEqual(
      lenses.map(({ range }) => range.start.line + 1),
      [12, 19],
    );
  }
});

tests.set(
  'each folder is run by its own interpreter: the setting, the .venv, the one of the Python extension',
  async () => {
    const { path } = folder('second');
    const one = `${path}/.venv/bin/python`;
    const two = vscode.workspace.getConfiguration('profileNeuron', folder('first')).get('interpreter');
    for (const [name, python] of [
      ['first', two],
      ['second', one],
      ['third', two],
    ]) {
      await vscode.window.showTextDocument(await open(name));
      await vscode.commands.executeCommand('profileNeuron.profileFile');
      await until(
        () => (fs.existsSync(`${file(name).fsPath}.ran`) ? fs.readFileSync(`${file(name).fsPath}.ran`, 'utf8') : ''),
        (seen) => seen === python,
        LONG_MS,
      );
    }
  },
);

tests.set('hints are at the ends of their lines, one in a line, with the time first', async () => {
  for (const name of ['first', 'third']) {
    const document = await open(name);
    const hints = await until(
      () => hintsOf(document),
      (seen) => seen.length === 4,
      LONG_MS,
    );
    assert.deepEqual(
      hints.map(({ position }) => position.line + 1),
      [14, 15, 16, 21],
    );
    for (const { position, label, textEdits } of hints) {
      assert.equal(position.character, document.lineAt(position.line).text.length);
      assert.match(textOf(label), name === 'first' ? /^cpu [\d.]+ \S+ · / : /^[\d.]+ (µs|ms) · /);
      assert.ok(!textEdits?.length);
    }
  }
});

tests.set('the next hot line is one with a time, and after the last comes the first', async () => {
  const editor = await vscode.window.showTextDocument(await open('second'));
  editor.selection = new vscode.Selection(13, 0, 13, 0);
  const hints = await until(
    () => hintsOf(editor.document),
    (seen) => seen.length === 4,
    LONG_MS,
  );
  const lines = new Set(hints.map(({ position }) => position.line));
  const visited = new Set();
  for (let step = 0; step < 4; step++) {
    const before = editor.selection.active.line;
    await vscode.commands.executeCommand('profileNeuron.goToNextHotLine');
    assert.notEqual(editor.selection.active.line, before);
    visited.add(editor.selection.active.line);
  }
  assert.ok(visited.size > 1);
  for (const line of visited) assert.ok(lines.has(line), `line ${line + 1}`);
});

tests.set('a capture is shown by the extension of Neuron Explorer where that is installed', async () => {
  await vscode.window.showTextDocument(await open('third'));
  const lens = await until(
    async () => (await lensesOf('third')).find(({ command }) => command?.title === 'Open in Neuron Explorer'),
    Boolean,
    LONG_MS,
  );
  const { opened } = await vscode.extensions.getExtension('AmazonWebServices.neuron-explorer').activate();
  void vscode.commands.executeCommand(lens.command.command, ...lens.command.arguments);
  const [shown] = await until(
    () => opened,
    (seen) => seen.length === 1,
    LONG_MS,
  );
  assert.ok(fs.statSync(shown).isDirectory());
});

// The last, since some of them clear what others look at.
tests.set('no command of the palette is dead', async () => {
  const { packageJSON } = vscode.extensions.getExtension('profile-neuron.profile-neuron');
  const known = await vscode.commands.getCommands(true);
  for (const { command } of packageJSON.contributes.commands) assert.ok(known.includes(command), command);
  const quiet = packageJSON.contributes.commands.filter(
    ({ command }) => !/selectInputs|restartServer|addInputs/.test(command),
  );
  await vscode.window.showTextDocument(await open('first'));
  for (const { command } of quiet) await within(vscode.commands.executeCommand(command), command);
});

exports.run = async () => {
  let failed = 0;
  for (const [name, test] of tests) {
    try {
      await test();
      console.log(`ok ${name}`);
    } catch (error) {
      failed++;
      console.log(`not ok ${name}: ${error?.stack ?? error}`);
    }
  }
  console.log(`${tests.size - failed} passed, ${failed} failed`);
  if (failed) throw new Error(`${failed} failed`);
};

const folder = (name) => vscode.workspace.workspaceFolders.find((one) => one.name === name).uri;
const file = (name) => vscode.Uri.joinPath(folder(name), 'model.py');
const open = (name) => vscode.workspace.openTextDocument(file(name));
const lensesOf = (name) => vscode.commands.executeCommand('vscode.executeCodeLensProvider', file(name), 100);
const textOf = (label) => (typeof label === 'string' ? label : label.map(({ value }) => value).join(''));

async function hintsOf(document) {
  const all = new vscode.Range(0, 0, document.lineCount, 0);
  return vscode.commands.executeCommand('vscode.executeInlayHintProvider', document.uri, all);
}

async function until(look, fits, limit = 30_000) {
  const end = Date.now() + limit;
  for (;;) {
    const seen = await look();
    if (fits(seen)) return seen;
    if (Date.now() > end) throw new Error(`what is seen stays ${JSON.stringify(seen)}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** A command that waits for a person is none that can be carried out here. */
async function within(promise, name) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${name} does not return`)), 20_000);
  });
  await Promise.race([promise, late]);
  clearTimeout(timer);
}
