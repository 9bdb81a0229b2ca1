// The report of a function: a page beside the text that follows what is known.

import { randomBytes } from 'node:crypto';

import {
  Disposable,
  Range,
  Selection,
  TextEditorRevealType,
  Uri,
  ViewColumn,
  window,
  type Webview,
  type WebviewPanel,
} from 'vscode';

import { REPORT, type FunctionParams, type Report } from './protocol';
import type { Server } from './server';

/** Several changes at once, as a run ends, are one new report. */
const SETTLED_MS = 250;

/** What the page is sent: a report, or null where there is none any more. */
export interface Shown {
  readonly report: Report | null;
}

/** What the page sends. */
export type Told = { readonly kind: 'ready' } | { readonly kind: 'reveal'; readonly line: number };

export class Reports implements Disposable {
  private readonly open = new Map<string, Page>();

  constructor(
    private readonly extensionUri: Uri,
    private readonly server: Server,
  ) {}

  /** Open the report of a function, or bring the open one to the front. */
  show(params: FunctionParams): void {
    const key = JSON.stringify([params.uri, params.qualname, params.occurrence]);
    const page = this.open.get(key) ?? new Page(params, this.server, this.extensionUri, () => this.open.delete(key));
    this.open.set(key, page);
    page.reveal();
  }

  /** Have the open reports of a document made anew, of all where none is named. */
  update(uri?: string): void {
    for (const page of this.open.values()) {
      if (uri === undefined || page.isOf(uri)) {
        page.update();
      }
    }
  }

  dispose(): void {
    [...this.open.values()].forEach((page) => page.dispose());
  }
}

class Page implements Disposable {
  private readonly panel: WebviewPanel;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly params: FunctionParams,
    private readonly server: Server,
    extensionUri: Uri,
    closed: () => void,
  ) {
    const media = Uri.joinPath(extensionUri, 'media');
    const where = { viewColumn: ViewColumn.Beside, preserveFocus: true };
    this.panel = window.createWebviewPanel('profileNeuron.report', params.qualname, where, {
      enableScripts: true,
      localResourceRoots: [media],
    });
    this.panel.webview.onDidReceiveMessage((told: unknown) => this.take(told));
    this.panel.onDidDispose(() => {
      clearTimeout(this.timer);
      closed();
    });
    this.panel.webview.html = pageHtml(this.panel.webview, media, randomBytes(16).toString('base64url'));
  }

  isOf(uri: string): boolean {
    return Uri.parse(this.params.uri).toString() === uri;
  }

  reveal(): void {
    this.panel.reveal(undefined, true);
    this.update();
  }

  update(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.send(), SETTLED_MS);
  }

  dispose(): void {
    this.panel.dispose();
  }

  private async send(): Promise<void> {
    const report = await this.server.ask<Report | null>(REPORT, this.params);
    // Without an answer what is shown stays; the server comes back.
    if (report !== undefined) {
      const shown: Shown = { report };
      await this.panel.webview.postMessage(shown);
    }
  }

  private take(message: unknown): void {
    const told = toldBy(message);
    if (told?.kind === 'ready') {
      // The page is new, at first and whenever it was hidden before.
      void this.send();
    } else if (told?.kind === 'reveal') {
      void revealLine(Uri.parse(this.params.uri), told.line);
    }
  }
}

/** What a message of the page says; undefined for anything else. */
export function toldBy(message: unknown): Told | undefined {
  if (typeof message !== 'object' || message === null || !('kind' in message)) {
    return undefined;
  }
  if (message.kind === 'ready') {
    return { kind: 'ready' };
  }
  const line = 'line' in message ? message.line : undefined;
  const isLine = typeof line === 'number' && Number.isSafeInteger(line) && line >= 0;
  return message.kind === 'reveal' && isLine ? { kind: 'reveal', line } : undefined;
}

/** The page without content, which its script puts in as text. It may load our two files and nothing else. */
export function pageHtml(webview: Pick<Webview, 'asWebviewUri' | 'cspSource'>, media: Uri, nonce: string): string {
  const address = (name: string) => escaped(webview.asWebviewUri(Uri.joinPath(media, name)).toString());
  const policy = `default-src 'none'; style-src ${webview.cspSource}; script-src 'nonce-${nonce}'`;
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="UTF-8">
<meta http-equiv="Content-Security-Policy" content="${escaped(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Function report</title>
<link rel="stylesheet" href="${address('report.css')}">
</head>
<body>
<main id="report"></main>
<script nonce="${nonce}" src="${address('report.js')}"></script>
</body>
</html>
`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
}

async function revealLine(uri: Uri, line: number): Promise<void> {
  const visible = window.visibleTextEditors.find(({ document }) => document.uri.toString() === uri.toString());
  const viewColumn = visible?.viewColumn ?? ViewColumn.One;
  const editor = await window.showTextDocument(uri, { viewColumn });
  editor.selection = new Selection(line, 0, line, 0);
  editor.revealRange(new Range(line, 0, line, 0), TextEditorRevealType.InCenterIfOutsideViewport);
}
