import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { Server, initializationOptions, serverCommand } from '../../src/server';
import { Uri, commands, editor, log, reset, window } from './vscode';

/** The language client of a test: it does what the test tells it to. */
interface Client {
  readonly command: { readonly command: string; readonly args: readonly string[] };
  readonly options: {
    readonly errorHandler: { closed(): Promise<{ action: number; handled: boolean }> };
    readonly middleware: { executeCommand(command: string, args: unknown[], next: () => unknown): Promise<unknown> };
    readonly traceOutputChannel: { trace(text: string): void };
    readonly stdioOptions: unknown;
  };
  readonly start: ReturnType<typeof vi.fn>;
  readonly dispose: ReturnType<typeof vi.fn>;
  readonly features: { fillClientCapabilities(capabilities: object): void }[];
  readonly sent: unknown[];
  become(state: number): void;
}

const { made, RUNNING, STARTING, failing } = vi.hoisted(() => ({
  made: [] as Client[],
  RUNNING: 2,
  STARTING: 3,
  failing: { start: undefined as Error | undefined },
}));

vi.mock('vscode-languageclient/node', () => ({
  CloseAction: { DoNotRestart: 1, Restart: 2 },
  RevealOutputChannelOn: { Never: 4 },
  State: { Stopped: 1, Running: 2, Starting: 3, StartFailed: 4 },
  LanguageClient: class {
    private listener: (event: { newState: number }) => void = () => undefined;
    private state = 1;
    readonly features: unknown[] = [];
    readonly sent: unknown[] = [];
    readonly start = vi.fn(() => (failing.start ? Promise.reject(failing.start) : Promise.resolve()));
    readonly dispose = vi.fn(() => Promise.resolve());
    constructor(
      readonly id: string,
      readonly name: string,
      readonly command: unknown,
      readonly options: unknown,
    ) {
      made.push(this as never);
    }
    become(state: number) {
      this.state = state;
      this.listener({ newState: state });
    }
    isRunning() {
      return this.state === 2;
    }
    registerFeature(feature: unknown) {
      this.features.push(feature);
    }
    onDidChangeState(listener: (event: { newState: number }) => void) {
      this.listener = listener;
    }
    sendNotification(...message: unknown[]) {
      this.sent.push(message);
      return Promise.resolve();
    }
    createDefaultErrorHandler(restarts: number) {
      let closings = 0;
      return { closed: () => ({ action: ++closings > restarts ? 1 : 2 }) };
    }
  },
}));

const PATH = process.env.PATH;
let root: string;

beforeEach(() => {
  reset();
  made.length = 0;
  failing.start = undefined;
  root = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'server-')));
  process.env.PATH = `${root}/bin`;
});

afterEach(() => {
  process.env.PATH = PATH;
  fs.rmSync(root, { recursive: true });
});

function python(file: string, version = '3.12'): string {
  const full = path.join(root, file);
  fs.mkdirSync(path.dirname(full), { recursive: true });
  fs.writeFileSync(full, `#!/bin/sh\necho run >> "$0.runs"\necho ${version}\n`, { mode: 0o755 });
  return full;
}

function wasRun(file: string): boolean {
  return fs.existsSync(`${file}.runs`);
}

async function started(): Promise<{ server: Server; client: Client }> {
  const server = new Server('/ext', log as never);
  await server.start();
  made[0]!.become(STARTING);
  made[0]!.become(RUNNING);
  return { server, client: made[0]! };
}

test('the server is started isolated, in the root folder, without a shell', () => {
  expect(serverCommand('/usr/bin/python3', '/ext')).toEqual({
    command: '/usr/bin/python3',
    args: ['-I', '-S', '/ext/bundled/libs/profile_neuron/__main__.py', 'serve'],
    options: { cwd: '/', shell: false },
  });
});

describe('the Python it runs in', () => {
  test('is one outside of the workspace even where that has one and is trusted', async () => {
    const own = python('bin/python3');
    const inside = python('work/.venv/bin/python');
    editor.folders = [{ uri: Uri.file(path.join(root, 'work')) }];
    const { client } = await started();
    expect(client.command.command).toBe(own);
    expect(wasRun(inside)).toBe(false);
    expect(log.info).toHaveBeenCalledWith(`the server runs in ${own} (python3 on the PATH)`);
  });

  test('is that of a setting where no other fits and the workspace is trusted', async () => {
    python('bin/python3', '3.9');
    const chosen = python('env/bin/python');
    editor.folders = [{ uri: Uri.file(path.join(root, 'work')) }];
    editor.settings['profileNeuron.interpreter'] = '../env/bin/python';
    const { client } = await started();
    expect(client.command.command).toBe(chosen);
  });

  test('is none of the workspace where that is not trusted, and the message says what to do', async () => {
    const old = python('bin/python3', '3.9');
    const planted = [python('work/.venv/bin/python'), python('work/bin/python3')];
    process.env.PATH = `${root}/code/bin:${root}/bin`;
    editor.isTrusted = false;
    editor.folders = [{ uri: Uri.file(path.join(root, 'work')) }];
    editor.settings['profileNeuron.interpreter'] = planted[0];
    const server = new Server('/ext', log as never);
    await server.start();
    expect(made).toEqual([]);
    expect(planted.map(wasRun)).toEqual([false, false]);
    expect(server.state).toBe('off');
    expect(window.showErrorMessage.mock.calls).toEqual([
      [
        expect.stringContaining(
          `outside of this workspace, which is not trusted, to start its server with (${old} is Python 3.9)`,
        ),
        'Restart Server',
        'Show Log',
        'Manage Workspace Trust',
      ],
    ]);
  });

  test('is looked for again when trust is granted', async () => {
    const inside = python('work/.venv/bin/python');
    editor.isTrusted = false;
    editor.folders = [{ uri: Uri.file(path.join(root, 'work')) }];
    const server = new Server('/ext', log as never);
    await server.start();
    editor.isTrusted = true;
    await server.start();
    expect(made.map(({ command }) => command.command)).toEqual([inside]);
  });
});

describe('what it is told at its start', () => {
  test('whether the workspace is trusted, and the first python3 outside of it', () => {
    python('work/bin/python3');
    const fallback = python('bin/python3');
    process.env.PATH = `${root}/code/bin:${root}/bin`;
    editor.folders = [{ uri: Uri.file(path.join(root, 'work')) }];
    editor.isTrusted = false;
    expect(initializationOptions()).toEqual({ trusted: false, fallbackInterpreter: fallback });
  });

  test('what this client shows, beside what others announce', async () => {
    python('bin/python3');
    const { client } = await started();
    const capabilities = { experimental: { other: 1 } };
    client.features[0]!.fillClientCapabilities(capabilities);
    expect(capabilities.experimental).toEqual({
      other: 1,
      profileNeuron: { heat: true, status: true, report: true, openCapture: true, openPage: true },
    });
  });
});

describe('while it runs', () => {
  test('commands go to it, and the context says that it is active', async () => {
    python('bin/python3');
    const { server } = await started();
    const given: unknown[] = [];
    editor.commands.set('profileNeuron.server.cancel', (...args) => given.push(...args));
    await server.execute('cancel', { uri: 'file:///a.py', line: 1 });
    expect(given).toEqual([{ uri: 'file:///a.py', line: 1 }]);
    expect(commands.executeCommand).toHaveBeenCalledWith('setContext', 'profileNeuron.active', true);
  });

  test('a command waits for a server that is starting', async () => {
    python('bin/python3');
    const server = new Server('/ext', log as never);
    const executed = vi.fn();
    editor.commands.set('profileNeuron.server.cancelAll', executed);
    void server.start();
    const execution = server.execute('cancelAll');
    await expect.poll(() => made.length).toBe(1);
    expect(executed).not.toHaveBeenCalled();
    made[0]!.become(RUNNING);
    await execution;
    expect(executed).toHaveBeenCalledOnce();
  });

  test('a lens that runs code leads to the question of trust where there is none', async () => {
    python('bin/python3');
    const { client } = await started();
    const next = vi.fn(() => 'ran');
    const click = (verb: string) => client.options.middleware.executeCommand(`profileNeuron.server.${verb}`, [], next);
    expect(await click('profileFunction')).toBe('ran');
    editor.isTrusted = false;
    expect(await click('profileFunction')).toBeUndefined();
    expect(commands.executeCommand).toHaveBeenLastCalledWith('workbench.trust.manage');
    expect(await click('showReport')).toBe('ran');
  });

  test('messages on the wire are in the log unless the setting leaves them out', async () => {
    python('bin/python3');
    const { client } = await started();
    client.options.traceOutputChannel.trace('one');
    expect(log.trace).not.toHaveBeenCalled();
    editor.settings['profileNeuron.trace.server'] = 'verbose';
    client.options.traceOutputChannel.trace('two');
    expect(log.trace.mock.calls).toEqual([['two']]);
  });
});

describe('when it ends', () => {
  test('it is started again without a word, four times', async () => {
    python('bin/python3');
    const { server, client } = await started();
    for (let count = 0; count < 4; count++) {
      expect(await client.options.errorHandler.closed()).toEqual({ action: 2, handled: true });
    }
    expect(window.showErrorMessage).not.toHaveBeenCalled();
    expect(await client.options.errorHandler.closed()).toEqual({ action: 1, handled: true });
    expect(server.state).toBe('off');
    expect(window.showErrorMessage.mock.calls).toEqual([
      [
        'Neuron Profile: its server ended five times within three minutes and is not started again',
        'Restart Server',
        'Show Log',
      ],
    ]);
  });

  test('and is started anew by the button of that message', async () => {
    python('bin/python3');
    const { server, client } = await started();
    window.showErrorMessage.mockResolvedValueOnce('Restart Server');
    for (let count = 0; count < 5; count++) {
      await client.options.errorHandler.closed();
    }
    await expect.poll(() => made.length).toBe(2);
    made[1]!.become(RUNNING);
    expect(server.state).toBe('running');
  });

  test('commands say why it does not run', async () => {
    const server = new Server('/ext', log as never);
    await server.start();
    window.showErrorMessage.mockClear();
    await server.execute('cancelAll');
    expect(window.showErrorMessage.mock.calls[0]?.[0]).toMatch(
      /^Neuron Profile does not run: .* found no Python 3\.10/,
    );
  });

  test('one that cannot be started at all is told of', async () => {
    python('bin/python3');
    failing.start = Object.assign(new Error('spawn EACCES'), { syscall: 'spawn python3' });
    const server = new Server('/ext', log as never);
    await server.start();
    await expect.poll(() => server.state).toBe('off');
    expect(window.showErrorMessage.mock.calls[0]?.[0]).toBe(
      'Neuron Profile: its server cannot be started: spawn EACCES',
    );
  });

  test('a restart ends the old one first, whose end then means nothing', async () => {
    python('bin/python3');
    const { server, client } = await started();
    await server.restart();
    expect(client.dispose).toHaveBeenCalledOnce();
    expect(made).toHaveLength(2);
    expect(await client.options.errorHandler.closed()).toEqual({ action: 1, handled: true });
    client.become(RUNNING);
    expect(server.state).toBe('starting');
  });

  test('notifications to it are lost, and requests have no answer', async () => {
    const server = new Server('/ext', log as never);
    server.tell('x', {});
    expect(await server.ask('x', {})).toBeUndefined();
  });
});
