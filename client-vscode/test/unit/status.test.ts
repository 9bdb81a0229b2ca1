import { beforeEach, describe, expect, test } from 'vitest';

import type { StatusParams } from '../../src/protocol';
import type { Server, ServerState } from '../../src/server';
import { Status, actions, interpreterLines, status } from '../../src/status';
import { EventEmitter, commands, editor, events, open, reset, window } from './vscode';

beforeEach(reset);

class FakeServer {
  private readonly changed = new EventEmitter();
  readonly onDidChangeState = this.changed.event;
  state: ServerState = 'running';
  whyOff = '';
  become(state: ServerState, whyOff = ''): void {
    this.state = state;
    this.whyOff = whyOff;
    this.changed.fire(state);
  }
}

function statusOf(server: FakeServer): Status {
  return new Status(server as unknown as Server);
}

const BUSY: StatusParams = {
  text: 'Neuron profiling 3/5',
  isBusy: true,
  detail: 'Block.forward is profiled.\nOne more waits.',
  interpreters: [{ uri: 'file:///code/a%20b', path: '/env/bin/python', source: 'the setting', problem: '' }],
};

describe('the item', () => {
  test('is there while a Python file is, and while something runs', () => {
    const shown = statusOf(new FakeServer());
    expect(editor.statusItem.isShown).toBe(false);
    shown.take(BUSY);
    expect(editor.statusItem.isShown).toBe(true);
    shown.take({ ...BUSY, isBusy: false });
    expect(editor.statusItem.isShown).toBe(false);
    open('/code/model.py');
    events.active.fire();
    expect(editor.statusItem.isShown).toBe(true);
    open('/code/notes.md', 10, 0, 'markdown');
    events.active.fire();
    expect(editor.statusItem.isShown).toBe(false);
  });

  test('turns while something is on, and says the same to a screen reader', () => {
    const shown = statusOf(new FakeServer());
    shown.take(BUSY);
    expect(editor.statusItem.text).toBe('$(loading~spin) Neuron profiling 3/5');
    expect(editor.statusItem.accessibilityInformation).toEqual({
      label: 'Neuron profiling 3/5\nBlock.forward is profiled.\nOne more waits.\na b: /env/bin/python (the setting)',
      role: 'button',
    });
    shown.take({ ...BUSY, text: 'Neuron ✓ 2.36 ms', isBusy: false, detail: '' });
    expect(editor.statusItem.text).toBe('Neuron ✓ 2.36 ms');
    expect(editor.statusItem.accessibilityInformation).toEqual({
      label: 'Neuron ✓ 2.36 ms\na b: /env/bin/python (the setting)',
      role: 'button',
    });
  });

  test('shows names and paths as they are, whatever they mean in markdown', () => {
    const shown = statusOf(new FakeServer());
    shown.take({ ...BUSY, detail: '[x](command:evil) <b> **f**' });
    const { value } = editor.statusItem.tooltip as { value: string };
    expect(value).toContain('\\[x\\]\\(command:evil\\) \\<b\\> \\*\\*f\\*\\*');
    expect(value).toContain('/env/bin/python');
  });

  test('what an ended server said is not said of the next one', () => {
    const server = new FakeServer();
    const shown = statusOf(server);
    shown.take(BUSY);
    server.become('starting');
    expect(editor.statusItem.text).toBe('Neuron starting');
    server.become('running');
    expect(editor.statusItem.text).toBe('Neuron');
  });
});

test('a server that is off says why', () => {
  expect(status('off', 'no Python', BUSY)).toEqual({
    text: 'Neuron off',
    isBusy: false,
    detail: 'no Python',
    interpreters: [],
  });
});

test('each interpreter is told with its folder, where it comes from and what is wrong with it', () => {
  expect(
    interpreterLines([
      { uri: 'file:///code/a%20b', path: '/env/bin/python', source: 'the setting', problem: 'It is Python 3.9.' },
      { uri: '', path: '/usr/bin/python3', source: 'python3 on the PATH', problem: '' },
    ]),
  ).toEqual(['a b: /env/bin/python (the setting). It is Python 3.9.', '/usr/bin/python3 (python3 on the PATH)']);
});

describe('what can be done from it', () => {
  test('everything in a trusted workspace', () => {
    open('/code/model.py');
    expect(actions().map(({ label }) => label)).toEqual([
      'Profile This Function',
      'Cancel All Runs',
      'Toggle Inline Results',
      'Toggle Run on Save',
      'Show Log',
      'Run Doctor',
      'Select Interpreter',
      'Restart Server',
    ]);
  });

  test('nothing that runs code in one that is not trusted, but its trust', () => {
    open('/code/model.py');
    editor.isTrusted = false;
    const labels = actions().map(({ label }) => label);
    expect(labels[0]).toBe('Manage Workspace Trust');
    for (const running of ['Profile This Function', 'Run Doctor', 'Select Interpreter']) {
      expect(labels).not.toContain(running);
    }
  });

  test('an interpreter is selected in the Python extension where there is one, else in the settings', () => {
    const select = () => actions().find(({ label }) => label === 'Select Interpreter');
    expect(select()).toMatchObject({
      command: 'workbench.action.openSettings',
      args: ['@id:profileNeuron.interpreter'],
    });
    editor.extensions['ms-python.python'] = {};
    expect(select()).toMatchObject({ command: 'python.setInterpreter' });
  });

  test('what is chosen is done', async () => {
    statusOf(new FakeServer());
    window.showQuickPick.mockResolvedValueOnce({ label: 'Run Doctor', command: 'profileNeuron.doctor' });
    await commands.executeCommand(editor.statusItem.command as string);
    expect(commands.executeCommand).toHaveBeenLastCalledWith('profileNeuron.doctor');
  });
});
