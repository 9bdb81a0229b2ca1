// Which interpreters a person chose in the Python extension, as far as it is there and tells.

import { Disposable, Uri, extensions, workspace, type Event } from 'vscode';

import { reasonOf, type Log } from './log';
import { INTERPRETERS, type ActiveInterpreter, type InterpretersParams } from './protocol';
import { realFiles } from './python';
import type { Server } from './server';

const ID = 'ms-python.python';

/** The part of its exports that is used; any of it may be missing in a version to come. */
interface Environments {
  getActiveEnvironmentPath?(resource: Uri): { readonly path?: unknown } | undefined;
  resolveEnvironment?(environment: unknown): Promise<{ readonly executable?: { readonly uri?: Uri } } | undefined>;
  readonly onDidChangeActiveEnvironmentPath?: Event<unknown>;
}

/** The active interpreter of each folder; none in a workspace that is not trusted, where nothing of it is asked. */
export async function activeInterpreters(log: Log): Promise<readonly ActiveInterpreter[]> {
  const environments = await findEnvironments(log);
  if (environments === undefined) {
    return [];
  }
  const folders = (workspace.workspaceFolders ?? []).filter((folder) => folder.uri.scheme === 'file');
  const found = await Promise.all(
    folders.map(async ({ uri }) => ({ uri: uri.toString(), path: await activePath(environments, uri, log) })),
  );
  return found.filter(({ path }) => path !== '');
}

/** Tell the server which interpreters are chosen: when it starts, and whenever that may have become another one. */
export function followInterpreters(server: Pick<Server, 'tell' | 'onDidChangeState'>, log: Log): Disposable {
  let following: Disposable | undefined;
  const tell = async () => {
    const environments = await findEnvironments(log);
    following ??= environments?.onDidChangeActiveEnvironmentPath?.(() => void tell());
    const params: InterpretersParams = { active: await activeInterpreters(log) };
    server.tell(INTERPRETERS, params);
  };
  return Disposable.from(
    server.onDidChangeState((state) => void (state === 'running' && tell())),
    workspace.onDidGrantWorkspaceTrust(() => void tell()),
    workspace.onDidChangeWorkspaceFolders(() => void tell()),
    new Disposable(() => {
      following?.dispose();
    }),
  );
}

async function findEnvironments(log: Log): Promise<Environments | undefined> {
  if (!workspace.isTrusted) {
    return undefined;
  }
  try {
    const exported: unknown = await extensions.getExtension<unknown>(ID)?.activate();
    return (exported as { readonly environments?: Environments } | undefined)?.environments;
  } catch (error) {
    log.warn(`the Python extension does not start, so what is chosen there is not known: ${reasonOf(error)}`);
    return undefined;
  }
}

/** Empty where there is none, or where it cannot be told. */
async function activePath(environments: Environments, folder: Uri, log: Log): Promise<string> {
  try {
    const active = environments.getActiveEnvironmentPath?.(folder);
    const resolved = active === undefined ? undefined : await environments.resolveEnvironment?.(active);
    const path = resolved?.executable?.uri?.fsPath ?? active?.path;
    // Unresolved it may also be the folder of an environment.
    return typeof path === 'string' && realFiles.isProgram(path) ? path : '';
  } catch (error) {
    log.warn(`the Python extension does not tell the interpreter of ${folder.fsPath}: ${reasonOf(error)}`);
    return '';
  }
}
