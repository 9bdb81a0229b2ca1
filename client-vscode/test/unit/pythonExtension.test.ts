import { beforeEach, expect, test, vi } from 'vitest';

import { activeInterpreters, followInterpreters } from '../../src/pythonExtension';
import { EventEmitter, Uri, editor, events, log, reset } from './vscode';

beforeEach(() => {
  reset();
  editor.folders = [{ uri: Uri.file('/one') }, { uri: Uri.file('/two') }, { uri: Uri.parse('memfs:/three') }];
});

const SHELL = '/bin/sh';
const activate = vi.fn();

function install(environments: unknown): void {
  activate.mockResolvedValue({ environments });
  editor.extensions['ms-python.python'] = { activate };
}

function active(): Promise<unknown> {
  return activeInterpreters(log as never);
}

test('each folder has the executable that its active environment resolves to', async () => {
  install({
    getActiveEnvironmentPath: (uri: Uri) => ({ id: uri.path, path: '/env' }),
    resolveEnvironment: ({ id }: { id: string }) =>
      Promise.resolve(id === '/one' ? { executable: { uri: Uri.file(SHELL) } } : undefined),
  });
  // That of the second one is not resolved, and its path is a folder.
  expect(await active()).toEqual([{ uri: 'file:///one', path: SHELL }]);
});

test('a version that resolves nothing is taken by its path where that is a program', async () => {
  install({ getActiveEnvironmentPath: () => ({ path: SHELL }) });
  expect(await active()).toHaveLength(2);
});

test('exports of any other shape mean that nothing is chosen', async () => {
  for (const environments of [undefined, {}, { getActiveEnvironmentPath: () => undefined }]) {
    install(environments);
    expect(await active()).toEqual([]);
  }
  editor.extensions = {};
  expect(await active()).toEqual([]);
});

test('one that fails is told in the log, and nothing is chosen', async () => {
  install({
    getActiveEnvironmentPath: () => {
      throw new Error('not ready');
    },
  });
  expect(await active()).toEqual([]);
  expect(log.warn).toHaveBeenCalledWith('the Python extension does not tell the interpreter of /one: not ready');
  activate.mockRejectedValueOnce(new Error('broken'));
  expect(await active()).toEqual([]);
});

test('it is not started in a workspace that is not trusted', async () => {
  install({ getActiveEnvironmentPath: () => ({ path: SHELL }) });
  editor.isTrusted = false;
  expect(await active()).toEqual([]);
  expect(activate).not.toHaveBeenCalled();
});

test('the server is told when it runs, when another one is chosen, and when trust is granted', async () => {
  const chosen = new EventEmitter();
  let path = SHELL;
  install({ getActiveEnvironmentPath: () => ({ path }), onDidChangeActiveEnvironmentPath: chosen.event });
  const changed = new EventEmitter();
  const server = { tell: vi.fn(), onDidChangeState: changed.event };
  const following = followInterpreters(server, log as never);
  const told = () => server.tell.mock.calls.map(([, { active }]) => (active as { path: string }[])[0]?.path);

  changed.fire('starting');
  changed.fire('running');
  await expect.poll(told).toEqual([SHELL]);
  path = '/bin/cat';
  chosen.fire();
  await expect.poll(told).toEqual([SHELL, '/bin/cat']);
  events.granted.fire();
  await expect.poll(told).toHaveLength(3);
  expect(server.tell.mock.calls[0]?.[0]).toBe('profileNeuron/interpreters');

  following.dispose();
  chosen.fire();
  events.granted.fire();
  changed.fire('running');
  await Promise.resolve();
  expect(told()).toHaveLength(3);
});
