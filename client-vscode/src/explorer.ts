// Showing captures in Neuron Explorer: through its own extension, or its page in a browser.

import { Uri, commands, env, extensions, window } from 'vscode';

import { reasonOf } from './log';
import type { OpenCaptureParams, OpenPageParams, OpenResult } from './protocol';

const EXTENSION = 'AmazonWebServices.neuron-explorer';
const COPY = 'Copy Path';
const USE_BROWSER = 'set profileNeuron.explorer.mode to "browser"';
/** How titles may speak of its Profile Manager, the surest first. Its command's ids are documented nowhere. */
const TITLES = [/\bprofile manager\b/i, /\b(open|load|add|import)\b.*\bprofiles?\b/i, /\bmanage\b.*\bprofiles?\b/i];
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

/**
 * Show a capture through AWS's extension.
 *
 * Nothing says what its command takes, so it gets the folder, and a person is told to paste it otherwise.
 */
export async function openCapture({ name, folder }: OpenCaptureParams): Promise<OpenResult> {
  const extension = extensions.getExtension<unknown>(EXTENSION);
  if (extension === undefined) {
    return failed(`the extension AWS Neuron Explorer is not installed; install it, or ${USE_BROWSER}`);
  }
  const command = findCommand(extension.packageJSON);
  if (command === undefined) {
    return failed(`the extension AWS Neuron Explorer has no command that opens profiles; ${USE_BROWSER}`);
  }
  try {
    await commands.executeCommand(command, Uri.file(folder));
  } catch (error) {
    return failed(`the extension AWS Neuron Explorer failed: ${reasonOf(error)}; ${USE_BROWSER}`);
  }
  void offerPath(name, folder);
  return shown;
}

/** Show a page of the viewer, which runs where the server runs. A problem does not repeat the address. */
export async function openPage({ url, apiPort }: OpenPageParams): Promise<OpenResult> {
  const page = Uri.parse(url, true);
  if (!/^https?$/.test(page.scheme) || !LOOPBACK.has(page.authority.replace(/:\d+$/, ''))) {
    return failed(`${url} is not an address of this machine, so it is not opened`);
  }
  try {
    const data = await env.asExternalUri(Uri.parse(`http://localhost:${apiPort}`));
    if (!isAt(data, apiPort)) {
      return failed(unreachable(page, data, apiPort));
    }
    // Forwards the port of the page by itself; an address that was forwarded before would be forwarded again.
    if (!(await env.openExternal(page))) {
      return failed(`no browser was opened for ${page.toString(true)}`);
    }
  } catch (error) {
    return failed(
      `the ports of Neuron Explorer cannot be forwarded: ${reasonOf(error)}; ${forwardBoth(page, apiPort)}`,
    );
  }
  return shown;
}

/** The id of a contributed command whose title speaks of opening profiles. */
export function findCommand(manifest: unknown): string | undefined {
  const contributed: unknown = (manifest as { contributes?: { commands?: unknown } } | undefined)?.contributes
    ?.commands;
  const listed: readonly unknown[] = Array.isArray(contributed) ? contributed : [];
  const titled = listed.map((one) => one as { command?: unknown; title?: unknown } | null);
  for (const pattern of TITLES) {
    const found = titled.find((one) => pattern.test(titleOf(one?.title)) && typeof one?.command === 'string');
    if (found !== undefined) {
      return found?.command as string;
    }
  }
  return undefined;
}

const shown: OpenResult = { isShown: true, problem: '' };

function failed(problem: string): OpenResult {
  return { isShown: false, problem };
}

/** A title is a text, or one in two languages. */
function titleOf(title: unknown): string {
  const value = typeof title === 'object' && title !== null ? (title as { value?: unknown }).value : title;
  return typeof value === 'string' ? value : '';
}

async function offerPath(name: string, folder: string): Promise<void> {
  const text = `The capture of ${name} is in ${folder}. If it is not shown, paste this path into the Profile Manager.`;
  if ((await window.showInformationMessage(text, COPY)) === COPY) {
    await env.clipboard.writeText(folder);
  }
}

/** Whether the page, which asks localhost for its data, reaches them there. */
function isAt(data: Uri, apiPort: number): boolean {
  return data.scheme === 'http' && [...LOOPBACK].some((host) => data.authority === `${host}:${apiPort}`);
}

function unreachable(page: Uri, data: Uri, apiPort: number): string {
  return (
    `the page of Neuron Explorer asks localhost:${apiPort} for its data, which is forwarded to ` +
    `${data.authority}${data.path === '/' ? '' : data.path} instead; ${forwardBoth(page, apiPort)}`
  );
}

function forwardBoth(page: Uri, apiPort: number): string {
  const port = page.authority.replace(/^.*:/, '');
  const forwards = [port, String(apiPort)].map((one) => `-L ${one}:localhost:${one}`).join(' ');
  return `forward both ports yourself, with ssh ${forwards} HOST`;
}
