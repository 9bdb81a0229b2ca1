// Whether code of the workspace may be run: what asks for it, and what is not done before.

import { Disposable, commands, workspace } from 'vscode';

import { TRUST, type TrustParams } from './protocol';
import type { Server } from './server';

/** Commands of the server that execute code or an interpreter of the workspace. */
const RUNNING = new Set([
  'doctor',
  'openInExplorer',
  'profileAllStale',
  'profileFile',
  'profileFunction',
  'selectInputs',
]);

/** Whether a verb may be carried out now; shows what decides about trust where it may not. */
export async function isAllowed(verb: string): Promise<boolean> {
  if (workspace.isTrusted || !RUNNING.has(verb)) {
    return true;
  }
  await manageTrust();
  return false;
}

export async function manageTrust(): Promise<void> {
  await commands.executeCommand('workbench.trust.manage');
}

/** Tell the server of a grant at once. Trust that is taken back reloads the window, so there is nothing to tell. */
export function forwardTrust(server: Pick<Server, 'tell' | 'start' | 'onDidChangeState'>): Disposable {
  const params: TrustParams = { trusted: true };
  return Disposable.from(
    workspace.onDidGrantWorkspaceTrust(() => {
      server.tell(TRUST, params);
      // Where no Python was found outside of the workspace, there may be one inside.
      void server.start();
    }),
    // A grant while it was starting was not heard.
    server.onDidChangeState((state) => {
      if (state === 'running' && workspace.isTrusted) {
        server.tell(TRUST, params);
      }
    }),
  );
}
