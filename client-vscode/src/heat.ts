// Bars beside warm lines, and marks in the overview ruler.
//
// A bar is the left border of a whole line. A picture in the gutter would share its place with breakpoints and
// lightbulbs, needs the margin that many people turn off, and cannot take a theme's colours. Nothing lies under the
// border: the lines of a function are indented. How wide it is says what its colour says, and dots say that the code
// was edited since, so nothing is told by colour alone.

import {
  Disposable,
  EventEmitter,
  OverviewRulerLane,
  Range,
  ThemeColor,
  Uri,
  window,
  workspace,
  type DecorationRenderOptions,
  type TextDocument,
  type TextDocumentContentChangeEvent,
  type TextEditor,
  type TextEditorDecorationType,
} from 'vscode';

import type { HeatLine, HeatParams } from './protocol';
import { SECTION, showsHeat } from './settings';
import { isPython } from './where';

const LEVELS = [1, 2, 3, 4, 5];
/** How many changes of a document are remembered, for heat that was on its way when they were made. */
const MOST_CHANGES = 100;

type Change = Pick<TextDocumentContentChangeEvent, 'range' | 'text'>;

export class Heat implements Disposable {
  private readonly lines = new Map<string, readonly HeatLine[]>();
  private readonly edits = new Map<string, { readonly version: number; readonly changes: readonly Change[] }[]>();
  private readonly fresh = LEVELS.map((level) => window.createTextEditorDecorationType(bar(level, false)));
  private readonly stale = LEVELS.map((level) => window.createTextEditorDecorationType(bar(level, true)));
  private readonly changed = new EventEmitter<string>();
  private readonly own: Disposable;

  /** Tells the document whose heat came, as a text. */
  readonly onDidChange = this.changed.event;

  constructor() {
    this.own = Disposable.from(
      this.changed,
      ...this.fresh,
      ...this.stale,
      window.onDidChangeVisibleTextEditors((editors) => editors.forEach((editor) => this.paint(editor))),
      workspace.onDidChangeTextDocument(({ document, contentChanges }) => this.follow(document, contentChanges)),
      workspace.onDidCloseTextDocument((document) => this.forget(document)),
      workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration(`${SECTION}.heat`)) {
          this.paintAll();
        }
      }),
    );
  }

  /** The warm lines of a document where they are now, in their order. */
  of(document: TextDocument): readonly HeatLine[] {
    const lines = this.lines.get(document.uri.toString()) ?? [];
    return lines.filter(({ line }) => line < document.lineCount).sort((one, other) => one.line - other.line);
  }

  /** Take what the server says of a file. */
  take(params: HeatParams): void {
    const uri = Uri.parse(params.uri).toString();
    const missed = (this.edits.get(uri) ?? []).filter(({ version }) => version > params.version);
    this.lines.set(
      uri,
      missed.reduce((lines, { changes }) => moved(lines, changes), params.lines),
    );
    this.paintAll(uri);
    this.changed.fire(uri);
  }

  /** Forget all, such as when the server ended. */
  clear(): void {
    this.lines.clear();
    this.paintAll();
  }

  dispose(): void {
    this.own.dispose();
  }

  private paintAll(uri?: string): void {
    window.visibleTextEditors
      .filter(({ document }) => uri === undefined || document.uri.toString() === uri)
      .forEach((editor) => this.paint(editor));
  }

  private paint(editor: TextEditor): void {
    const lines = showsHeat(editor.document.uri) ? this.of(editor.document) : [];
    for (const level of LEVELS) {
      this.paintLevel(editor, this.fresh[level - 1], ofLevel(lines, level, false));
      this.paintLevel(editor, this.stale[level - 1], ofLevel(lines, level, true));
    }
  }

  private paintLevel(editor: TextEditor, type: TextEditorDecorationType | undefined, ranges: Range[]): void {
    if (type !== undefined) {
      editor.setDecorations(type, ranges);
    }
  }

  /** What is painted follows edits by itself; this is for what is painted and gone to later. */
  private follow(document: TextDocument, changes: readonly Change[]): void {
    const uri = document.uri.toString();
    if (!isPython(document) || changes.length === 0) {
      return;
    }
    this.lines.set(uri, moved(this.lines.get(uri) ?? [], changes));
    const edits = this.edits.get(uri) ?? [];
    this.edits.set(uri, [...edits, { version: document.version, changes }].slice(-MOST_CHANGES));
  }

  private forget(document: TextDocument): void {
    this.lines.delete(document.uri.toString());
    this.edits.delete(document.uri.toString());
  }
}

/** Where warm lines are after an edit, whose changes come in the order in which an editor made them. */
export function moved(lines: readonly HeatLine[], changes: readonly Change[]): readonly HeatLine[] {
  return changes.reduce(
    (before, change) =>
      before.flatMap((warm) => {
        const line = lineAfter(warm.line, change);
        return line === undefined ? [] : [{ ...warm, line }];
      }),
    lines,
  );
}

function lineAfter(line: number, { range: { start, end }, text }: Change): number | undefined {
  if (line < start.line || (line === start.line && start.character > 0)) {
    return line;
  }
  if (line < end.line) {
    return undefined;
  }
  return line + text.split(/\r\n|\r|\n/).length - 1 - (end.line - start.line);
}

function ofLevel(lines: readonly HeatLine[], level: number, isStale: boolean): Range[] {
  return lines
    .filter((warm) => warm.level === level && warm.isStale === isStale)
    .map(({ line }) => new Range(line, 0, line, 0));
}

function bar(level: number, isStale: boolean): DecorationRenderOptions {
  const look = {
    isWholeLine: true,
    borderStyle: isStale ? 'dotted' : 'solid',
    borderWidth: `0 0 0 ${level}px`,
    borderColor: new ThemeColor(isStale ? `${SECTION}.stale` : `${SECTION}.heat${level}`),
  };
  // Times of code that was edited since draw nobody there from far away.
  const ruler = { overviewRulerColor: look.borderColor, overviewRulerLane: OverviewRulerLane.Center };
  return isStale ? look : { ...look, ...ruler };
}
