// A stand-in for the editor: its values, and a state that tests set and look at. Unlike the editor it does nothing by
// itself.

import { vi } from 'vitest';

type Listener = (event: never) => unknown;

export class EventEmitter {
  private readonly listeners = new Set<Listener>();
  readonly event = (listener: Listener) => {
    this.listeners.add(listener);
    return new Disposable(() => this.listeners.delete(listener));
  };
  fire(event?: unknown): void {
    [...this.listeners].forEach((listener) => listener(event as never));
  }
  dispose(): void {
    this.listeners.clear();
  }
}

export class Disposable {
  constructor(private readonly end: () => unknown) {}
  static from(...all: { dispose(): unknown }[]): Disposable {
    return new Disposable(() => all.forEach((one) => one.dispose()));
  }
  dispose(): void {
    this.end();
  }
}

export class Uri {
  private constructor(
    readonly scheme: string,
    readonly authority: string,
    readonly path: string,
    readonly query: string,
  ) {}
  static parse(text: string): Uri {
    const match = /^([a-z]+):(?:\/\/([^/?]*))?([^?]*)(?:\?(.*))?$/.exec(text);
    if (match === null) {
      throw new Error(`${text} is no address`);
    }
    const [, scheme = '', authority = '', path = '', query = ''] = match;
    return new Uri(scheme, authority, path === '' && authority !== '' ? '/' : decodeURIComponent(path), query);
  }
  static file(path: string): Uri {
    return new Uri('file', '', path, '');
  }
  static joinPath(base: Uri, ...parts: string[]): Uri {
    return new Uri(base.scheme, base.authority, [base.path, ...parts].join('/'), base.query);
  }
  get fsPath(): string {
    return this.path;
  }
  toString(): string {
    const query = this.query === '' ? '' : `?${this.query}`;
    return `${this.scheme}://${this.authority}${encodeURI(this.path)}${query}`;
  }
}

export class Position {
  constructor(
    readonly line: number,
    readonly character: number,
  ) {}
}

export class Range {
  readonly start: Position;
  readonly end: Position;
  constructor(startLine: number, startCharacter: number, endLine: number, endCharacter: number) {
    this.start = new Position(startLine, startCharacter);
    this.end = new Position(endLine, endCharacter);
  }
}

export class Selection extends Range {
  get active(): Position {
    return this.end;
  }
}

export class ThemeColor {
  constructor(readonly id: string) {}
}

export class MarkdownString {
  value = '';
  appendText(text: string): this {
    this.value += text.replace(/[\\`*_{}[\]()#+\-!~<>|]/g, '\\$&');
    return this;
  }
}

export const OverviewRulerLane = { Left: 1, Center: 2, Right: 4, Full: 7 };
export const StatusBarAlignment = { Left: 1, Right: 2 };
export const ConfigurationTarget = { Global: 1, Workspace: 2, WorkspaceFolder: 3 };
export const TextEditorRevealType = { InCenterIfOutsideViewport: 2 };
export const ViewColumn = { One: 1, Beside: -2 };

/** What tests set, and what they look at. */
export interface Editor {
  isTrusted: boolean;
  folders: { uri: Uri }[] | undefined;
  settings: Record<string, unknown>;
  /** Extensions by id. */
  extensions: Record<string, unknown>;
  activeTextEditor: unknown;
  visibleTextEditors: unknown[];
  /** Handlers of registered commands. */
  commands: Map<string, (...args: unknown[]) => unknown>;
  statusItem: Record<string, unknown> & { show(): void; hide(): void; isShown: boolean };
  panels: Panel[];
}

export class Panel {
  readonly posted: unknown[] = [];
  readonly received = new EventEmitter();
  readonly disposed = new EventEmitter();
  readonly reveal = vi.fn();
  readonly webview = {
    html: '',
    cspSource: 'https://source.of.webviews',
    asWebviewUri: (uri: Uri) => uri,
    onDidReceiveMessage: this.received.event,
    postMessage: (message: unknown) => Promise.resolve(this.posted.push(message) > 0),
  };
  readonly onDidDispose = this.disposed.event;
  constructor(
    readonly title: string,
    readonly options: unknown,
  ) {}
  dispose(): void {
    this.disposed.fire();
  }
}

export const events = {
  granted: new EventEmitter(),
  folders: new EventEmitter(),
  visible: new EventEmitter(),
  active: new EventEmitter(),
  changed: new EventEmitter(),
  closed: new EventEmitter(),
  configuration: new EventEmitter(),
};

export const editor: Editor = {} as Editor;

/** An editor without anything, in a workspace that is trusted; before each test. */
export function reset(): void {
  Object.values(events).forEach((one) => one.dispose());
  Object.assign(editor, {
    isTrusted: true,
    folders: undefined,
    settings: {},
    extensions: {},
    activeTextEditor: undefined,
    visibleTextEditors: [],
    commands: new Map(),
    panels: [],
    statusItem: {
      isShown: false,
      show() {
        this.isShown = true;
      },
      hide() {
        this.isShown = false;
      },
      dispose() {
        this.isShown = false;
      },
    },
  });
  vi.clearAllMocks();
  env.asExternalUri.mockImplementation((uri: Uri) => Promise.resolve(uri));
}

export const commands = {
  registerCommand: vi.fn((id: string, handler: (...args: unknown[]) => unknown) => {
    editor.commands.set(id, handler);
    return new Disposable(() => editor.commands.delete(id));
  }),
  executeCommand: vi.fn((id: string, ...args: unknown[]) => Promise.resolve(editor.commands.get(id)?.(...args))),
};

export const env = {
  asExternalUri: vi.fn((uri: Uri) => Promise.resolve(uri)),
  openExternal: vi.fn((_uri: Uri) => Promise.resolve(true)),
  clipboard: { writeText: vi.fn((_text: string) => Promise.resolve()) },
};

export const extensions = {
  getExtension: (id: string) => editor.extensions[id],
};

let decorationTypes = 0;

export const window = {
  get activeTextEditor() {
    return editor.activeTextEditor;
  },
  get visibleTextEditors() {
    return editor.visibleTextEditors;
  },
  onDidChangeVisibleTextEditors: events.visible.event,
  onDidChangeActiveTextEditor: events.active.event,
  createStatusBarItem: () => editor.statusItem,
  createTextEditorDecorationType: vi.fn((options: object) => ({ key: ++decorationTypes, options, dispose: vi.fn() })),
  createWebviewPanel: (_kind: string, title: string, _where: unknown, options: unknown) => {
    const panel = new Panel(title, options);
    editor.panels.push(panel);
    return panel;
  },
  setStatusBarMessage: vi.fn(),
  showErrorMessage: vi.fn((..._said: string[]): Promise<string | undefined> => Promise.resolve(undefined)),
  showInformationMessage: vi.fn((..._said: string[]): Promise<string | undefined> => Promise.resolve(undefined)),
  showQuickPick: vi.fn((_items: unknown[]): Promise<unknown> => Promise.resolve(undefined)),
  showTextDocument: vi.fn(),
};

export const workspace = {
  get isTrusted() {
    return editor.isTrusted;
  },
  get workspaceFolders() {
    return editor.folders;
  },
  getConfiguration: (section: string) => ({
    get: (name: string, other: unknown) => editor.settings[`${section}.${name}`] ?? other,
    inspect: (name: string) => ({ workspaceFolderValue: editor.settings[`folder:${section}.${name}`] }),
    update: vi.fn((name: string, value: unknown, target: number) => {
      editor.settings[`${section}.${name}`] = value;
      editor.settings.target = target;
      return Promise.resolve();
    }),
  }),
  onDidGrantWorkspaceTrust: events.granted.event,
  onDidChangeWorkspaceFolders: events.folders.event,
  onDidChangeTextDocument: events.changed.event,
  onDidCloseTextDocument: events.closed.event,
  onDidChangeConfiguration: events.configuration.event,
};

/** A document with an editor on it, whose cursor is on a line. */
export function open(path: string, lineCount = 100, line = 0, languageId = 'python') {
  const document = {
    uri: Uri.parse(path.includes(':') ? path : `file://${path}`),
    languageId,
    version: 1,
    lineCount,
    lineAt: () => ({ firstNonWhitespaceCharacterIndex: 4 }),
  };
  const opened = {
    document,
    selection: new Selection(line, 0, line, 0),
    setDecorations: vi.fn(),
    revealRange: vi.fn(),
    viewColumn: 1,
  };
  editor.activeTextEditor = opened;
  editor.visibleTextEditors = [opened];
  return opened;
}

export const log = { info: vi.fn(), warn: vi.fn(), error: vi.fn(), trace: vi.fn(), show: vi.fn() };

reset();
