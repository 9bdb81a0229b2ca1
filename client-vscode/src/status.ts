// The item in the status bar, and what can be done from there.

import {
  Disposable,
  MarkdownString,
  StatusBarAlignment,
  Uri,
  commands,
  extensions,
  window,
  workspace,
  type QuickPickItem,
  type StatusBarItem,
} from 'vscode';

import { NAME } from './log';
import type { InterpreterInUse, StatusParams } from './protocol';
import type { Server, ServerState } from './server';
import { SECTION } from './settings';
import { isPython } from './where';

const ACTIONS = `${SECTION}.showActions`;

export class Status implements Disposable {
  private readonly item: StatusBarItem;
  private readonly own: Disposable;
  private said: StatusParams | undefined;

  constructor(private readonly server: Server) {
    this.item = window.createStatusBarItem(`${SECTION}.status`, StatusBarAlignment.Right);
    this.item.name = NAME;
    this.item.command = ACTIONS;
    this.own = Disposable.from(
      this.item,
      commands.registerCommand(ACTIONS, showActions),
      window.onDidChangeActiveTextEditor(() => this.show()),
      server.onDidChangeState((state) => {
        // What a server said is of that server.
        this.said = state === 'running' ? this.said : undefined;
        this.show();
      }),
    );
    this.show();
  }

  /** Take what the server says of itself. */
  take(params: StatusParams): void {
    this.said = params;
    this.show();
  }

  dispose(): void {
    this.own.dispose();
  }

  private show(): void {
    const { text, isBusy, detail, interpreters } = status(this.server.state, this.server.whyOff, this.said);
    this.item.text = isBusy ? `$(loading~spin) ${text}` : text;
    this.item.tooltip = tooltip(detail, interpreters);
    this.item.accessibilityInformation = {
      label: [text, detail, ...interpreterLines(interpreters)].filter(Boolean).join('\n'),
      role: 'button',
    };
    if (isBusy || isPython(window.activeTextEditor?.document)) {
      this.item.show();
    } else {
      this.item.hide();
    }
  }
}

/** What there is to say: the server's own words while it runs. */
export function status(state: ServerState, whyOff: string, said: StatusParams | undefined): StatusParams {
  const silent = { isBusy: false, detail: '', interpreters: [] };
  switch (state) {
    case 'running':
      return said ?? { ...silent, text: 'Neuron' };
    case 'starting':
      return { ...silent, text: 'Neuron starting', detail: 'The server starts.' };
    case 'off':
      return { ...silent, text: 'Neuron off', detail: whyOff };
  }
}

/** Which Python is used where, and why; one line each. */
export function interpreterLines(interpreters: readonly InterpreterInUse[]): readonly string[] {
  return interpreters.map(({ uri, path, source, problem }) => {
    const folder = uri === '' ? '' : `${Uri.parse(uri).path.split('/').filter(Boolean).at(-1) ?? ''}: `;
    return `${folder}${path} (${source})${problem === '' ? '' : `. ${problem}`}`;
  });
}

function tooltip(detail: string, interpreters: readonly InterpreterInUse[]): MarkdownString {
  const lines = [NAME, ...detail.split('\n'), ...interpreterLines(interpreters)].filter(Boolean);
  // Paths and names are shown as they are, whatever they would mean in markdown.
  return new MarkdownString().appendText(lines.join('\n'));
}

interface Action extends QuickPickItem {
  readonly command: string;
  readonly args?: readonly unknown[];
}

async function showActions(): Promise<void> {
  const chosen = await window.showQuickPick(actions(), { title: NAME, placeHolder: 'What do you want to do?' });
  if (chosen !== undefined) {
    await commands.executeCommand(chosen.command, ...(chosen.args ?? []));
  }
}

/** What can be done now: nothing that runs code where that is not trusted. */
export function actions(): readonly Action[] {
  const { isTrusted } = workspace;
  const ofFunction = isTrusted && isPython(window.activeTextEditor?.document);
  return [
    ...(isTrusted ? [] : [{ label: 'Manage Workspace Trust', command: 'workbench.trust.manage' }]),
    ...(ofFunction ? [{ label: 'Profile This Function', command: `${SECTION}.profileFunction` }] : []),
    { label: 'Cancel All Runs', command: `${SECTION}.cancelAll` },
    { label: 'Toggle Inline Results', command: `${SECTION}.toggleInline` },
    { label: 'Toggle Run on Save', command: `${SECTION}.toggleRunOnSave` },
    { label: 'Show Log', command: `${SECTION}.showLog` },
    ...(isTrusted ? [{ label: 'Run Doctor', command: `${SECTION}.doctor` }, selectInterpreter()] : []),
    { label: 'Restart Server', command: `${SECTION}.restartServer` },
  ];
}

function selectInterpreter(): Action {
  const label = 'Select Interpreter';
  return extensions.getExtension('ms-python.python') === undefined
    ? { label, command: 'workbench.action.openSettings', args: [`@id:${SECTION}.interpreter`] }
    : { label, command: 'python.setInterpreter' };
}
