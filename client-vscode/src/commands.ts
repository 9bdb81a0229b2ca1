// The commands of the palette: most are the server's, asked for the cursor.

import { Disposable, commands, window } from 'vscode';

import type { Heat } from './heat';
import { goToHotLine } from './hotLines';
import type { Log } from './log';
import type { Server } from './server';
import { SECTION, toggleRunOnSave } from './settings';
import { cursor } from './where';

/** Commands of a function or a file, with the server's verb for each. */
const AT_CURSOR: Readonly<Record<string, string>> = {
  addInputs: 'addInputs',
  cancel: 'cancel',
  clear: 'clear',
  goToFailure: 'goToFailure',
  openInExplorer: 'openInExplorer',
  pinBaseline: 'pinBaseline',
  profileFile: 'profileFile',
  profileFunction: 'profileFunction',
  selectInputs: 'selectInputs',
  showReport: 'showReport',
  showRunLog: 'showLog',
  unpinBaseline: 'unpinBaseline',
};
/** Commands of no place. */
const ANYWHERE = ['cancelAll', 'profileAllStale', 'release', 'toggleInline'];
const SHOWN_MS = 4000;

export function registerCommands(server: Server, heat: Heat, log: Log): Disposable {
  const handlers: Record<string, () => unknown> = {
    doctor: () => server.execute('doctor', ...(cursor() ? [cursor()] : [])),
    goToNextHotLine: () => goToHotLine(heat, 'next'),
    goToPreviousHotLine: () => goToHotLine(heat, 'previous'),
    restartServer: () => server.restart(),
    showLineDetails: () => commands.executeCommand('editor.action.showHover'),
    showLog: () => log.show(),
    toggleRunOnSave: () => tellRunOnSave(),
  };
  for (const [name, verb] of Object.entries(AT_CURSOR)) {
    handlers[name] = () => executeAtCursor(server, verb);
  }
  for (const verb of ANYWHERE) {
    handlers[verb] = () => server.execute(verb);
  }
  const registered = Object.entries(handlers).map(([name, handler]) =>
    commands.registerCommand(`${SECTION}.${name}`, handler),
  );
  return Disposable.from(...registered);
}

async function executeAtCursor(server: Server, verb: string): Promise<void> {
  const at = cursor();
  if (at === undefined) {
    void window.showInformationMessage('Neuron Profile: put the cursor into a function of a Python file first');
    return;
  }
  await server.execute(verb, at);
}

async function tellRunOnSave(): Promise<void> {
  const value = await toggleRunOnSave(window.activeTextEditor?.document.uri);
  const text = value === 'off' ? 'Saves no longer profile' : 'Saves by hand profile what is new';
  window.setStatusBarMessage(text, SHOWN_MS);
}
