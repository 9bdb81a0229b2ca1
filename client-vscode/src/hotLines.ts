// Going from one hot line to the next.

import { Range, Selection, TextEditorRevealType, window } from 'vscode';

import type { Heat } from './heat';
import type { HeatLine } from './protocol';

/** From this level on a line is hot, unless there is none so warm. */
const HOT = 3;
const SHOWN_MS = 4000;

export type Direction = 'next' | 'previous';

/** Put the cursor on the hot line after or before it; says so where the file has none. */
export function goToHotLine(heat: Heat, direction: Direction): void {
  const editor = window.activeTextEditor;
  const line = editor && hotLine(heat.of(editor.document), editor.selection.active.line, direction);
  if (editor === undefined || line === undefined) {
    window.setStatusBarMessage('Neuron Profile has no times for lines of this file', SHOWN_MS);
    return;
  }
  const column = editor.document.lineAt(line).firstNonWhitespaceCharacterIndex;
  editor.selection = new Selection(line, column, line, column);
  editor.revealRange(new Range(line, 0, line, 0), TextEditorRevealType.InCenterIfOutsideViewport);
}

/** The hot line that is next in a direction, from the other end after the last one; undefined where there is none. */
export function hotLine(heat: readonly HeatLine[], from: number, direction: Direction): number | undefined {
  const hot = heat.filter(({ level }) => level >= HOT);
  const lines = (hot.length > 0 ? hot : heat).map(({ line }) => line).sort((one, other) => one - other);
  if (direction === 'next') {
    return lines.find((line) => line > from) ?? lines[0];
  }
  return lines.findLast((line) => line < from) ?? lines.at(-1);
}
