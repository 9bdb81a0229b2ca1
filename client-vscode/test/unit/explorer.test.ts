import { beforeEach, describe, expect, test } from 'vitest';

import { findCommand, openCapture, openPage } from '../../src/explorer';
import { Uri, commands, editor, env, reset, window } from './vscode';

beforeEach(reset);

const CAPTURE = { name: 'Block.forward', folder: '/cache/runs/7', mode: 'auto' };
const PAGE = { url: 'http://localhost:3001/profile/Block.forward%407', apiPort: 3002 };

function install(...contributed: unknown[]): void {
  editor.extensions['AmazonWebServices.neuron-explorer'] = { packageJSON: { contributes: { commands: contributed } } };
}

describe('a capture in the extension AWS Neuron Explorer', () => {
  test('goes to the command whose title speaks of the Profile Manager, whatever its id', async () => {
    install(
      { command: 'x.profile', title: 'Start Profiling' },
      { command: 'y', title: 'Neuron Explorer: Open Profile Manager' },
    );
    const given: unknown[] = [];
    editor.commands.set('y', (...args) => given.push(...args));
    expect(await openCapture(CAPTURE)).toEqual({ isShown: true, problem: '' });
    expect(given.map(String)).toEqual(['file:///cache/runs/7']);
  });

  test('its folder is said, and copied when that is asked for', async () => {
    install({ command: 'y', title: 'Open Profile Manager' });
    window.showInformationMessage.mockResolvedValueOnce('Copy Path');
    await openCapture(CAPTURE);
    expect(window.showInformationMessage.mock.calls[0]?.[0]).toBe(
      'The capture of Block.forward is in /cache/runs/7. If it is not shown, paste this path into the Profile Manager.',
    );
    await expect.poll(() => env.clipboard.writeText.mock.calls).toEqual([['/cache/runs/7']]);
  });

  test('without the extension the answer says what to do', async () => {
    expect(await openCapture(CAPTURE)).toEqual({
      isShown: false,
      problem:
        'the extension AWS Neuron Explorer is not installed; install it, or set profileNeuron.explorer.mode to "browser"',
    });
  });

  test('without such a command nothing is guessed', async () => {
    install({ command: 'neuron-explorer.open', title: 'Zoom into Instructions' });
    expect(await openCapture(CAPTURE)).toEqual({
      isShown: false,
      problem:
        'the extension AWS Neuron Explorer has no command that opens profiles; set profileNeuron.explorer.mode to "browser"',
    });
    expect(commands.executeCommand).not.toHaveBeenCalled();
  });

  test('a command that fails is told with its reason', async () => {
    install({ command: 'y', title: 'Open Profile Manager' });
    editor.commands.set('y', () => {
      throw new Error('no endpoint');
    });
    const { isShown, problem } = await openCapture(CAPTURE);
    expect(isShown).toBe(false);
    expect(problem).toContain('failed: no endpoint');
    expect(window.showInformationMessage).not.toHaveBeenCalled();
  });

  test('manifests of any shape are read', () => {
    const listed = (...all: unknown[]) => ({ contributes: { commands: all } });
    expect(findCommand(undefined)).toBeUndefined();
    expect(findCommand({})).toBeUndefined();
    expect(findCommand({ contributes: { commands: { command: 'x', title: 'Open Profile' } } })).toBeUndefined();
    expect(
      findCommand(listed(null, {}, { title: 'Open Profile' }, { command: 7, title: 'Open Profile' })),
    ).toBeUndefined();
    expect(findCommand(listed({ command: 'x', title: { value: 'Open Profile', original: '' } }))).toBe('x');
    expect(
      findCommand(listed({ command: 'x', title: 'Manage Profiles' }, { command: 'y', title: 'Load a Profile' })),
    ).toBe('y');
  });
});

describe('a page of the viewer', () => {
  test('is opened with its path where the editor is on the same machine', async () => {
    expect(await openPage(PAGE)).toEqual({ isShown: true, problem: '' });
    expect(env.openExternal.mock.calls.map(String)).toEqual(['http://localhost:3001/profile/Block.forward@7']);
    // Its own port is forwarded by what opens it, and must not be twice.
    expect(env.asExternalUri.mock.calls.map(String)).toEqual(['http://localhost:3002/']);
  });

  test.each([
    'http://localhost:49002/',
    'https://host.example/proxy/3002/',
    'https://localhost:3002/',
    'http://other:3002/',
  ])('is not opened where it cannot get its data: %s', async (forwarded) => {
    env.asExternalUri.mockImplementation((uri: Uri) =>
      Promise.resolve(uri.authority === 'localhost:3002' ? Uri.parse(forwarded) : uri),
    );
    const { isShown, problem } = await openPage(PAGE);
    expect(isShown).toBe(false);
    expect(problem).toContain('asks localhost:3002 for its data');
    expect(problem).toContain(forwarded.replace(/^https?:\/\//, '').replace(/:(\d+)\/$/, ':$1'));
    expect(problem).toContain('ssh -L 3001:localhost:3001 -L 3002:localhost:3002 HOST');
    expect(env.openExternal).not.toHaveBeenCalled();
  });

  test('a browser that does not open is told, with the address it was to open', async () => {
    env.openExternal.mockResolvedValueOnce(false);
    expect((await openPage(PAGE)).problem).toMatch(/^no browser was opened for http:\/\/localhost:3001\/profile\//);
  });

  test('ports that cannot be forwarded are told, with what to do', async () => {
    env.asExternalUri.mockRejectedValueOnce(new Error('no tunnel'));
    expect((await openPage(PAGE)).problem).toMatch(/cannot be forwarded: no tunnel; forward both ports yourself/);
  });

  test.each([
    'https://example.com/',
    'http://localhost.example.com:3001/',
    'http://10.0.0.1:3001/',
    'file:///etc/passwd',
  ])('is not opened anywhere else: %s', async (url) => {
    expect(await openPage({ url, apiPort: 3002 })).toEqual({
      isShown: false,
      problem: `${url} is not an address of this machine, so it is not opened`,
    });
    expect(env.asExternalUri).not.toHaveBeenCalled();
  });
});
