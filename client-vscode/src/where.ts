// Where a person is in the editor, in the words of the server.

import { window, type TextDocument } from 'vscode';

/** What the server's commands take: a document, and the line of the cursor from 0. */
export interface At {
  readonly uri: string;
  readonly line: number;
}

/** Whether a document is one that the server knows. */
export function isPython(document: TextDocument | undefined): boolean {
  return document?.languageId === 'python' && document.uri.scheme === 'file';
}

/** The cursor in a Python file; undefined where there is none. */
export function cursor(): At | undefined {
  const editor = window.activeTextEditor;
  if (editor === undefined || !isPython(editor.document)) {
    return undefined;
  }
  return { uri: editor.document.uri.toString(), line: editor.selection.active.line };
}
