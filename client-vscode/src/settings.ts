// The settings that the extension reads itself; the server asks for all others.

import { ConfigurationTarget, workspace, type Uri } from 'vscode';

export const SECTION = 'profileNeuron';

/** The Python that a person names for a folder, as it is written; empty for none. */
export function interpreter(folder: Uri): string {
  return workspace.getConfiguration(SECTION, folder).get<string>('interpreter', '').trim();
}

export function showsHeat(document: Uri): boolean {
  return workspace.getConfiguration(SECTION, document).get<boolean>('heat.gutter', true);
}

/** Whether the log leaves out messages to and from the server even at its level Trace. */
export function isTraceOff(): boolean {
  return workspace.getConfiguration(SECTION).get<string>('trace.server', 'off') === 'off';
}

/** Have saves profile or not, where that is decided now or else for the workspace; gives what was written. */
export async function toggleRunOnSave(document: Uri | undefined): Promise<string> {
  const settings = workspace.getConfiguration(SECTION, document);
  const value = settings.get<string>('runOnSave', 'manual') === 'off' ? 'manual' : 'off';
  await settings.update('runOnSave', value, target(settings.inspect('runOnSave')?.workspaceFolderValue));
  return value;
}

function target(ofFolder: unknown): ConfigurationTarget {
  if (ofFolder !== undefined) {
    return ConfigurationTarget.WorkspaceFolder;
  }
  return workspace.workspaceFolders === undefined ? ConfigurationTarget.Global : ConfigurationTarget.Workspace;
}
