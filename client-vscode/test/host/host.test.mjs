// Tests inside of the extension host, where tests.cjs has the vscode API to itself: two folders with two interpreters.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { Home } from '../workbench/harness.mjs';
import { MODEL } from '../workbench/sources.mjs';
import { extension, interpreter, standIn, vsix } from '../workbench/world.mjs';

test('the tests inside of the extension host pass', { timeout: 240_000 }, async () => {
  const home = new Home();
  let editor, window;
  try {
    const one = interpreter(home.at('one'));
    const two = interpreter(home.at('two'));
    home.path(one.bin);
    home.settings({ 'profileNeuron.hints.minTime': '1ns', 'profileNeuron.hints.minShare': 0 });
    // Each says which Python executed it.
    const model = `import sys\nopen(__file__ + '.ran', 'w').write(sys.executable)\n${MODEL}`;
    const set = (settings) => JSON.stringify(settings);
    home.workspace('first', {
      'model.py': model,
      '.vscode/settings.json': set({ 'profileNeuron.interpreter': two.python }),
    });
    home.workspace('second', { 'model.py': model });
    const onDevice = model.replace('ones(300, 300)', 'ones(300, 300, device=torch.accelerator.current_accelerator())');
    home.workspace('third', {
      'model.py': onDevice,
      '.vscode/settings.json': set({ 'profileNeuron.run.env': standIn() }),
    });
    fs.symlinkSync(home.at('one'), home.at('ws', 'second', '.venv'));
    const workspace = home.at('ws', 'all.code-workspace');
    const folders = ['first', 'second', 'third'].map((name) => ({ path: name }));
    fs.writeFileSync(workspace, JSON.stringify({ folders }));
    // What the stand-in for the Python extension says is active for the third.
    home.variables.ACTIVE_INTERPRETER = JSON.stringify({ third: two.python });
    home.install(vsix());
    home.install(extension('host/python'));
    editor = await home.start();
    const remote = (file) => `vscode-remote://127.0.0.1:${editor.port}${path.join(import.meta.dirname, file)}`;
    const payload = [
      ['extensionDevelopmentPath', remote('explorer')],
      ['extensionTestsPath', remote('tests.cjs')],
    ];
    window = await editor.open(workspace, { payload });
    const { code, lines } = await window.ended(200_000);
    assert.equal(code, 0, `${lines.join('\n')}\n${home.logs()}`);
    assert.deepEqual([...window.outside], []);
  } finally {
    await window?.close();
    await editor?.stop();
    home.remove();
  }
});
