import { beforeEach, expect, test, vi } from 'vitest';

import { forwardTrust, isAllowed } from '../../src/trust';
import { EventEmitter, commands, editor, events, reset } from './vscode';

beforeEach(reset);

const RUNNING = ['doctor', 'openInExplorer', 'profileAllStale', 'profileFile', 'profileFunction', 'selectInputs'];

test('everything is carried out in a trusted workspace', async () => {
  for (const verb of [...RUNNING, 'showReport']) {
    expect(await isAllowed(verb)).toBe(true);
  }
  expect(commands.executeCommand).not.toHaveBeenCalled();
});

test.each(RUNNING)('%s leads to the question of trust in one that is not trusted', async (verb) => {
  editor.isTrusted = false;
  expect(await isAllowed(verb)).toBe(false);
  expect(commands.executeCommand.mock.calls).toEqual([['workbench.trust.manage']]);
});

test.each(['showReport', 'showLog', 'clear', 'cancelAll', 'toggleInline', 'goToFailure'])(
  '%s runs no code and needs no trust',
  async (verb) => {
    editor.isTrusted = false;
    expect(await isAllowed(verb)).toBe(true);
    expect(commands.executeCommand).not.toHaveBeenCalled();
  },
);

test('a grant goes to the server at once, and starts one that found no Python before', () => {
  const states = new EventEmitter();
  const server = { tell: vi.fn(), start: vi.fn(() => Promise.resolve()), onDidChangeState: states.event };
  editor.isTrusted = false;
  forwardTrust(server);
  states.fire('running');
  expect(server.tell).not.toHaveBeenCalled();
  editor.isTrusted = true;
  events.granted.fire();
  expect(server.tell.mock.calls).toEqual([['profileNeuron/trust', { trusted: true }]]);
  expect(server.start).toHaveBeenCalledOnce();
  // A server that was starting when trust was granted did not hear of it.
  states.fire('running');
  expect(server.tell).toHaveBeenCalledTimes(2);
});
