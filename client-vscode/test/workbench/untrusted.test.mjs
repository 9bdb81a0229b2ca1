// A folder that nobody trusts, with files that would show that they were executed.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { COLD_MS, Home } from './harness.mjs';
import { MODEL, planted } from './sources.mjs';
import { extension, interpreter, ours, vsix } from './world.mjs';

let home, editor, window, folder, trace;

before(
  async () => {
    home = new Home();
    trace = home.at('executed');
    home.path(interpreter(home.at('python')).bin);
    home.settings({
      'security.workspace.trust.enabled': true,
      'security.workspace.trust.startupPrompt': 'never',
      'security.workspace.trust.untrustedFiles': 'open',
    });
    const program = `#!/bin/sh\necho "$0 $*" >>'${trace}'\nexec /usr/bin/python3 "$@"\n`;
    const python = planted(trace);
    const modules = [
      'msgpack',
      'torch',
      'profile_neuron',
      'pygls',
      'sitecustomize',
      'usercustomize',
      'conftest',
      'typing_extensions',
    ];
    folder = home.workspace('planted', {
      'model.py': python + MODEL,
      ...Object.fromEntries(modules.map((name) => [`${name}.py`, python])),
      '.venv/bin/python': program,
      '.venv/bin/python3': program,
      '.venv/pyvenv.cfg': 'home = /usr/bin\n',
      'bin/python3': program,
      'neuron-ls': program,
      '.vscode/settings.json': JSON.stringify({
        'profileNeuron.interpreter': '${workspaceFolder}/bin/python3',
        'profileNeuron.run.env': { PYTHONSTARTUP: 'conftest.py', PYTHONPATH: '.' },
        'profileNeuron.runOnSave': 'always',
        'python.defaultInterpreterPath': '${workspaceFolder}/bin/python3',
      }),
    });
    for (const name of ['.venv/bin/python', '.venv/bin/python3', 'bin/python3', 'neuron-ls'])
      fs.chmodSync(path.join(folder, name), 0o755);
    // What a shell that was started in the folder would find first.
    home.path('.', path.join(folder, 'bin'), path.join(home.at('python'), 'bin'));
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

const executed = () => (fs.existsSync(trace) ? fs.readFileSync(trace, 'utf8') : '');

test('its functions are found, and a save and a command run nothing', async () => {
  await window.openFile('model.py');
  const lenses = await window.until(
    () => window.lenses(),
    (seen) => seen.length === 2,
    COLD_MS,
  );
  assert.deepEqual(lenses, ['Trust this workspace to profile', 'Trust this workspace to profile']);
  await window.screenshot('untrusted');
  await window.save();
  await window.ask('execute', 'profileNeuron.server.toggleInline');
  await window.ask('execute', 'profileNeuron.server.toggleInline');
  assert.deepEqual(await window.hints(), {});
  const [server] = ours(home, / serve$/);
  assert.ok(server.command.startsWith(home.at('python')), server.command);
  assert.deepEqual(ours(home, /profile_neuron/).length, 1);
  assert.equal(executed(), '');
});

test('a click on the lens offers trust', async () => {
  await window.lens('Trust this workspace to profile').first().click();
  await window.page.locator('.workspace-trust-editor, .monaco-dialog-box').first().waitFor();
  assert.equal(executed(), '');
});

test('once it is trusted its code is run', async () => {
  await window.page
    .getByText(/^(Trust|Trust Workspace & Continue|Yes, I trust the authors)$/)
    .first()
    .click();
  // The page for trust, which is in a tab or above all tabs.
  await window.ask('execute', 'workbench.action.closeActiveEditor');
  await window.openFile('model.py');
  await window.until(
    () => window.lenses(),
    (seen) => seen.length === 2 && !/Trust/.test(seen.join()),
    COLD_MS,
  );
  await window.save();
  await window.until(executed, (text) => text.includes('bin/python3'), COLD_MS);
});

test('no request left this machine', () => {
  assert.deepEqual([...window.outside], []);
});
