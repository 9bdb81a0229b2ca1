// The language server of this window: started, restarted, ended, and spoken to.

import * as path from 'node:path';
import * as readline from 'node:readline';

import { EventEmitter, commands, window, workspace, type Disposable, type LogOutputChannel } from 'vscode';
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  RevealOutputChannelOn,
  State,
  type ErrorHandler,
  type Executable,
  type LanguageClientOptions,
  type NotificationType,
  type RequestType,
  type StaticFeature,
} from 'vscode-languageclient/node';

import { NAME, reasonOf, writeServerLine, type Log } from './log';
import type { ClientCapabilities, InitializationOptions } from './protocol';
import * as python from './python';
import { activeInterpreters } from './pythonExtension';
import { SECTION, interpreter, isTraceOff } from './settings';
import { isAllowed, manageTrust } from './trust';

export const SERVER_COMMAND = 'profileNeuron.server.';

const CAPABILITIES: ClientCapabilities = { heat: true, status: true, report: true, openCapture: true, openPage: true };
const RESTARTS = 4;
const RESTART = 'Restart Server';
const SHOW_LOG = 'Show Log';
const MANAGE_TRUST = 'Manage Workspace Trust';

export type ServerState = 'off' | 'starting' | 'running';

export class Server implements Disposable {
  private readonly changed = new EventEmitter<ServerState>();
  private readonly handlers: ((client: LanguageClient) => void)[] = [];
  private client: LanguageClient | undefined;
  private turn: Promise<void> = Promise.resolve();
  private current: ServerState = 'off';

  readonly onDidChangeState = this.changed.event;
  /** Why it is off, one sentence; empty before the first start. */
  whyOff = '';

  constructor(
    private readonly extensionPath: string,
    private readonly log: Log,
  ) {}

  get state(): ServerState {
    return this.current;
  }

  /** Have every notification of a type go to a handler; before the first start. */
  listen<Params>(type: NotificationType<Params>, handler: (params: Params) => void): void {
    this.handlers.push((client) => client.onNotification(type, handler));
  }

  /** Have every request of a type answered by a handler; before the first start. */
  answer<Params, Result>(type: RequestType<Params, Result, void>, handler: (params: Params) => Promise<Result>): void {
    this.handlers.push((client) => client.onRequest(type.method, handler));
  }

  /** Send a notification, which is lost where the server does not run. */
  tell(method: string, params: object): void {
    if (this.client?.isRunning() === true) {
      this.client.sendNotification(method, params).catch((error: unknown) => {
        this.log.warn(`${method} was not sent: ${reasonOf(error)}`);
      });
    }
  }

  /** Send a request; undefined where the server does not run or fails. */
  async ask<Result>(method: string, params: object): Promise<Result | undefined> {
    try {
      return this.client?.isRunning() === true ? await this.client.sendRequest<Result>(method, params) : undefined;
    } catch (error) {
      this.log.warn(`${method} failed: ${reasonOf(error)}`);
      return undefined;
    }
  }

  /** Carry out a command of the server, once that is up. */
  async execute(verb: string, ...args: readonly unknown[]): Promise<void> {
    await this.settled();
    if (this.current === 'running') {
      await commands.executeCommand(`${SERVER_COMMAND}${verb}`, ...args);
    } else {
      await this.offer(`${NAME} does not run: ${this.whyOff || 'it was not started'}`);
    }
  }

  /** Start it where it does not run. */
  start(): Promise<void> {
    return this.inTurn(() => (this.current === 'off' ? this.begin() : Promise.resolve()));
  }

  restart(): Promise<void> {
    return this.inTurn(async () => {
      await this.end();
      await this.begin();
    });
  }

  stop(): Promise<void> {
    return this.inTurn(() => this.end());
  }

  dispose(): void {
    void this.stop();
    this.changed.dispose();
  }

  /** One start or end at a time, in the order they were asked for. */
  private inTurn(step: () => Promise<void>): Promise<void> {
    this.turn = this.turn.then(step).catch((error: unknown) => {
      this.become('off', reasonOf(error));
      this.log.error(`the server was not started: ${reasonOf(error)}`);
    });
    return this.turn;
  }

  private async begin(): Promise<void> {
    this.become('starting', '');
    const found = await this.choosePython();
    if (found === undefined) {
      return;
    }
    const client = this.makeClient(found.path);
    this.client = client;
    // Not awaited: a server that hangs here could not be restarted.
    client.start().catch((error: unknown) => {
      this.log.error(`the server does not start: ${reasonOf(error)}`);
      // One that starts and ends comes to closed() below, again and again; one that cannot be started does not.
      if (String((error as NodeJS.ErrnoException).syscall).startsWith('spawn')) {
        this.giveUp(client, `its server cannot be started: ${reasonOf(error)}`);
      }
    });
  }

  private async end(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    this.become('off', 'it was stopped');
    await client?.dispose().catch((error: unknown) => {
      this.log.info(`the server was ended: ${reasonOf(error)}`);
    });
  }

  private async choosePython(): Promise<python.Candidate | undefined> {
    const searchPath = process.env.PATH ?? '';
    const folders = folderPaths();
    const files = python.realFiles;
    let choice = await python.choose(python.outside(searchPath, folders, files), python.probe);
    if (choice.found === undefined && workspace.isTrusted) {
      const chosen = [...chosenInSettings(searchPath), ...(await chosenInPythonExtension(this.log))];
      choice = await python.choose(python.inside(chosen, searchPath, folders, files), python.probe, choice.passedOver);
    }
    for (const problem of choice.passedOver) {
      this.log.info(`not used for the server: ${problem}`);
    }
    if (choice.found === undefined) {
      const problem = python.noneFound(choice.passedOver, workspace.isTrusted);
      this.become('off', problem);
      this.log.error(problem);
      void this.offer(problem);
    } else {
      this.log.info(`the server runs in ${choice.found.path} (${choice.found.source})`);
    }
    return choice.found;
  }

  private makeClient(pythonPath: string): LanguageClient {
    const command = serverCommand(pythonPath, this.extensionPath);
    const client: LanguageClient = new QuietClient(
      SECTION,
      NAME,
      command,
      this.options(this.errorHandler(() => client)),
    );
    client.registerFeature(announce);
    for (const register of this.handlers) {
      register(client);
    }
    client.onDidChangeState(({ newState }) => {
      if (client !== this.client) {
        return;
      }
      if (newState === State.Running) {
        this.become('running', '');
      } else if (newState === State.Starting) {
        this.become('starting', '');
      }
    });
    return client;
  }

  private options(errorHandler: ErrorHandler): LanguageClientOptions {
    return {
      documentSelector: [{ scheme: 'file', language: 'python' }],
      initializationOptions,
      outputChannel: this.log,
      traceOutputChannel: traceChannel(this.log),
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      // It is restarted, and told of once it is given up.
      initializationFailedHandler: () => false,
      errorHandler,
      stdioOptions: {
        stdout: () => undefined,
        stderr: (input) => {
          readline.createInterface({ input }).on('line', (line) => writeServerLine(this.log, line));
        },
      },
      middleware: {
        executeCommand: async (command, args, next): Promise<unknown> =>
          (await isAllowed(command.replace(SERVER_COMMAND, ''))) ? next(command, args) : undefined,
      },
    };
  }

  /** The client's usual one, without messages of its own; of a client that is no longer in use nothing is restarted. */
  private errorHandler(ofClient: () => LanguageClient): ErrorHandler {
    let usual: ErrorHandler | undefined;
    const handler = () => (usual ??= ofClient().createDefaultErrorHandler(RESTARTS));
    return {
      // Where the wire is broken the end of the server follows, which is what it is restarted after.
      error: () => ({ action: ErrorAction.Continue, handled: true }),
      closed: async () => {
        const { action } = await handler().closed();
        if (ofClient() !== this.client) {
          return { action: CloseAction.DoNotRestart, handled: true };
        }
        if (action === CloseAction.DoNotRestart) {
          this.giveUp(ofClient(), 'its server ended five times within three minutes and is not started again');
        }
        return { action, handled: true };
      },
    };
  }

  private giveUp(client: LanguageClient, problem: string): void {
    if (client === this.client) {
      this.client = undefined;
      this.become('off', problem);
      void this.offer(`${NAME}: ${problem}`);
    }
  }

  /** Say what is wrong, with what a person can do. */
  private async offer(problem: string): Promise<void> {
    const actions = workspace.isTrusted ? [RESTART, SHOW_LOG] : [RESTART, SHOW_LOG, MANAGE_TRUST];
    const chosen = await window.showErrorMessage(problem, ...actions);
    if (chosen === RESTART) {
      await this.restart();
    } else if (chosen === SHOW_LOG) {
      this.log.show();
    } else if (chosen === MANAGE_TRUST) {
      await manageTrust();
    }
  }

  private async settled(): Promise<void> {
    await this.turn;
    if (this.current === 'starting') {
      await new Promise<void>((resolve) => {
        const listener = this.onDidChangeState((state) => {
          if (state !== 'starting') {
            listener.dispose();
            resolve();
          }
        });
      });
    }
  }

  private become(state: ServerState, whyOff: string): void {
    this.whyOff = whyOff;
    this.current = state;
    void commands.executeCommand('setContext', 'profileNeuron.active', state === 'running');
    this.changed.fire(state);
  }
}

/**
 * How the server is started: without anything of the Python's own site packages, and where no file of a workspace is.
 * The package's own main puts its folder on the path.
 */
export function serverCommand(pythonPath: string, extensionPath: string): Executable {
  const main = path.join(extensionPath, 'bundled', 'libs', 'profile_neuron', '__main__.py');
  return { command: pythonPath, args: ['-I', '-S', main, 'serve'], options: { cwd: '/', shell: false } };
}

export function initializationOptions(): InitializationOptions {
  const searchPath = process.env.PATH ?? '';
  return {
    trusted: workspace.isTrusted,
    fallbackInterpreter: python.fallback(searchPath, folderPaths(), python.realFiles),
  };
}

function folderPaths(): string[] {
  return localFolders().map(({ uri }) => uri.fsPath);
}

function localFolders() {
  return (workspace.workspaceFolders ?? []).filter(({ uri }) => uri.scheme === 'file');
}

function chosenInSettings(searchPath: string): python.Candidate[] {
  return localFolders()
    .filter(({ uri }) => interpreter(uri) !== '')
    .map(({ uri }) => ({
      path: python.settingPath(interpreter(uri), uri.fsPath, searchPath, python.realFiles),
      source: `the setting profileNeuron.interpreter of ${uri.fsPath}`,
    }));
}

async function chosenInPythonExtension(log: Log): Promise<python.Candidate[]> {
  const active = await activeInterpreters(log);
  return active.map((one) => ({ path: one.path, source: 'the Python extension' }));
}

/** Tells the server what this client shows and opens by itself. */
const announce: StaticFeature = {
  fillClientCapabilities(capabilities) {
    const others: unknown = capabilities.experimental;
    capabilities.experimental = { ...(others as object | undefined), profileNeuron: CAPABILITIES };
  },
  initialize: () => undefined,
  getState: () => ({ kind: 'static' }),
  clear: () => undefined,
};

/** What goes wrong is in the log; messages for each would pile up while a server is restarted. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

/** The log without messages to and from the server while the setting leaves them out. */
function traceChannel(log: Log): LogOutputChannel {
  const trace = (message: string, ...rest: readonly unknown[]) => {
    if (!isTraceOff()) {
      log.trace(message, ...rest);
    }
  };
  return Object.create(log, { trace: { value: trace } }) as LogOutputChannel;
}
