import { beforeEach, describe, expect, test, vi } from 'vitest';

import { registerCommands } from '../../src/commands';
import { Heat } from '../../src/heat';
import type { Server } from '../../src/server';
import { commands, editor, log, open, reset, window } from './vscode';

beforeEach(reset);

const server = { execute: vi.fn(() => Promise.resolve()), restart: vi.fn(() => Promise.resolve()) };

function register(): void {
  registerCommands(server as unknown as Server, new Heat(), log as never);
}

async function run(name: string): Promise<void> {
  await commands.executeCommand(`profileNeuron.${name}`);
}

describe('commands of the server', () => {
  test.each([
    ['profileFunction', 'profileFunction'],
    ['profileFile', 'profileFile'],
    ['cancel', 'cancel'],
    ['openInExplorer', 'openInExplorer'],
    ['showReport', 'showReport'],
    ['showRunLog', 'showLog'],
    ['pinBaseline', 'pinBaseline'],
    ['unpinBaseline', 'unpinBaseline'],
    ['selectInputs', 'selectInputs'],
    ['addInputs', 'addInputs'],
    ['goToFailure', 'goToFailure'],
    ['clear', 'clear'],
  ])('%s is asked for the line of the cursor, from 0', async (name, verb) => {
    register();
    open('/code/a 模型.py', 100, 41);
    await run(name);
    expect(server.execute.mock.calls).toEqual([[verb, { uri: 'file:///code/a%20%E6%A8%A1%E5%9E%8B.py', line: 41 }]]);
  });

  test.each(['cancelAll', 'profileAllStale', 'release', 'toggleInline'])('%s needs no file', async (name) => {
    register();
    await run(name);
    expect(server.execute.mock.calls).toEqual([[name]]);
  });

  test.each([undefined, 'untitled:Untitled-1', 'git:/code/model.py'])(
    'a cursor elsewhere is told so: %s',
    async (path) => {
      register();
      if (path !== undefined) {
        open(path);
      }
      await run('profileFunction');
      expect(server.execute).not.toHaveBeenCalled();
      expect(window.showInformationMessage).toHaveBeenCalledWith(
        'Neuron Profile: put the cursor into a function of a Python file first',
      );
    },
  );

  test('the doctor is asked for the file at hand, where there is one', async () => {
    register();
    await run('doctor');
    open('/code/model.py', 10, 3);
    await run('doctor');
    expect(server.execute.mock.calls).toEqual([['doctor'], ['doctor', { uri: 'file:///code/model.py', line: 3 }]]);
  });
});

describe('commands of the editor', () => {
  test('details of a line are its hover', async () => {
    register();
    await run('showLineDetails');
    expect(commands.executeCommand).toHaveBeenLastCalledWith('editor.action.showHover');
  });

  test('the log is shown and the server started anew', async () => {
    register();
    await run('showLog');
    await run('restartServer');
    expect(log.show).toHaveBeenCalledOnce();
    expect(server.restart).toHaveBeenCalledOnce();
  });

  test('runs on save are turned off and on again', async () => {
    register();
    await run('toggleRunOnSave');
    expect(editor.settings['profileNeuron.runOnSave']).toBe('off');
    await run('toggleRunOnSave');
    expect(editor.settings['profileNeuron.runOnSave']).toBe('manual');
    editor.settings['profileNeuron.runOnSave'] = 'always';
    await run('toggleRunOnSave');
    expect(editor.settings['profileNeuron.runOnSave']).toBe('off');
  });

  test('that is written where it has an effect: for the folder that has it, the workspace, or the user', async () => {
    register();
    await run('toggleRunOnSave');
    expect(editor.settings.target).toBe(1);
    editor.folders = [];
    await run('toggleRunOnSave');
    expect(editor.settings.target).toBe(2);
    editor.settings['folder:profileNeuron.runOnSave'] = 'manual';
    await run('toggleRunOnSave');
    expect(editor.settings.target).toBe(3);
  });
});
