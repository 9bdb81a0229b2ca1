import { beforeEach, describe, expect, test } from 'vitest';

import { Heat, moved } from '../../src/heat';
import type { HeatLine } from '../../src/protocol';
import { Range, editor, events, open, reset, window } from './vscode';

const URI = 'file:///code/model.py';

beforeEach(reset);

function warm(line: number, level = 3, isStale = false): HeatLine {
  return { line, level, isStale };
}

/** What is painted in an editor: per line its style, colour, width and place in the ruler. */
function painted(opened: ReturnType<typeof open>): Record<number, string> {
  const lines: Record<number, string> = {};
  const last = new Map(opened.setDecorations.mock.calls as [{ options: Look }, Range[]][]);
  for (const [{ options }, ranges] of last) {
    for (const { start } of ranges) {
      const ruler = options.overviewRulerColor?.id ?? 'no ruler';
      lines[start.line] = `${options.borderStyle} ${options.borderColor.id} ${options.borderWidth}, ${ruler}`;
    }
  }
  return lines;
}

interface Look {
  readonly borderStyle: string;
  readonly borderWidth: string;
  readonly borderColor: { readonly id: string };
  readonly overviewRulerColor?: { readonly id: string };
  readonly isWholeLine: boolean;
}

describe('what is painted', () => {
  test('a bar per line, wider and of another colour with each level', () => {
    const opened = open('/code/model.py');
    new Heat().take({ uri: URI, version: 1, lines: [warm(3, 1), warm(4, 5)] });
    expect(painted(opened)).toEqual({
      3: 'solid profileNeuron.heat1 0 0 0 1px, profileNeuron.heat1',
      4: 'solid profileNeuron.heat5 0 0 0 5px, profileNeuron.heat5',
    });
  });

  test('dots, and nothing in the ruler, where the code was edited since', () => {
    const opened = open('/code/model.py');
    new Heat().take({ uri: URI, version: 1, lines: [warm(3, 4, true)] });
    expect(painted(opened)).toEqual({ 3: 'dotted profileNeuron.stale 0 0 0 4px, no ruler' });
  });

  test('each level has one type, however much is painted', () => {
    const heat = new Heat();
    open('/code/model.py');
    for (let version = 1; version < 20; version++) {
      heat.take({ uri: URI, version, lines: [warm(version)] });
    }
    expect(window.createTextEditorDecorationType).toHaveBeenCalledTimes(10);
  });

  test('what is said of a file replaces what was said before', () => {
    const opened = open('/code/model.py');
    const heat = new Heat();
    heat.take({ uri: URI, version: 1, lines: [warm(3), warm(4)] });
    heat.take({ uri: URI, version: 2, lines: [warm(4)] });
    expect(Object.keys(painted(opened))).toEqual(['4']);
    heat.take({ uri: URI, version: 2, lines: [] });
    expect(painted(opened)).toEqual({});
  });

  test('only in editors of that file', () => {
    const opened = open('/code/other.py');
    new Heat().take({ uri: URI, version: 1, lines: [warm(3)] });
    expect(opened.setDecorations).not.toHaveBeenCalled();
  });

  test('in an editor that comes later', () => {
    const heat = new Heat();
    heat.take({ uri: URI, version: 1, lines: [warm(3)] });
    const opened = open('/code/model.py');
    events.visible.fire([opened]);
    expect(Object.keys(painted(opened))).toEqual(['3']);
  });

  test('a file with blanks and other scripts in its name is the same file in either spelling', () => {
    const opened = open('/code/a 模型.py');
    new Heat().take({ uri: 'file:///code/a%20%E6%A8%A1%E5%9E%8B.py', version: 1, lines: [warm(3)] });
    expect(Object.keys(painted(opened))).toEqual(['3']);
  });

  test('nothing while the setting leaves it out, and all again when it does not', () => {
    const opened = open('/code/model.py');
    editor.settings['profileNeuron.heat.gutter'] = false;
    new Heat().take({ uri: URI, version: 1, lines: [warm(3)] });
    expect(painted(opened)).toEqual({});
    editor.settings['profileNeuron.heat.gutter'] = true;
    events.configuration.fire({ affectsConfiguration: (name: string) => 'profileNeuron.heat.gutter'.startsWith(name) });
    expect(Object.keys(painted(opened))).toEqual(['3']);
  });

  test('lines that the text no longer has, and levels that there are not, are left out', () => {
    const opened = open('/code/model.py', 4);
    new Heat().take({ uri: URI, version: 1, lines: [warm(3), warm(4), warm(2, 6), warm(1, 0)] });
    expect(Object.keys(painted(opened))).toEqual(['3']);
  });

  test('nothing after the server ended', () => {
    const opened = open('/code/model.py');
    const heat = new Heat();
    heat.take({ uri: URI, version: 1, lines: [warm(3)] });
    heat.clear();
    expect(painted(opened)).toEqual({});
  });

  test('nothing of a file that was closed', () => {
    const heat = new Heat();
    const opened = open('/code/model.py');
    heat.take({ uri: URI, version: 1, lines: [warm(3)] });
    events.closed.fire(opened.document);
    expect(heat.of(opened.document as never)).toEqual([]);
  });
});

describe('edits', () => {
  test('lines of a text that was edited on the way are moved by the edits that were missed', () => {
    const opened = open('/code/model.py');
    const heat = new Heat();
    for (const version of [2, 3]) {
      opened.document.version = version;
      events.changed.fire({
        document: opened.document,
        contentChanges: [{ range: new Range(0, 0, 0, 0), text: '#\n' }],
      });
    }
    heat.take({ uri: URI, version: 2, lines: [warm(10)] });
    expect(Object.keys(painted(opened))).toEqual(['11']);
  });

  test('a file that is opened again has nothing of its earlier edits', () => {
    const opened = open('/code/model.py');
    const heat = new Heat();
    opened.document.version = 5;
    events.changed.fire({ document: opened.document, contentChanges: [{ range: new Range(0, 0, 0, 0), text: '#\n' }] });
    events.closed.fire(opened.document);
    heat.take({ uri: URI, version: 1, lines: [warm(10)] });
    expect(Object.keys(painted(opened))).toEqual(['10']);
  });

  test('lines that are known move with each edit', () => {
    const opened = open('/code/model.py');
    const heat = new Heat();
    heat.take({ uri: URI, version: 1, lines: [warm(10), warm(12)] });
    opened.document.version = 2;
    events.changed.fire({
      document: opened.document,
      contentChanges: [{ range: new Range(11, 0, 11, 0), text: 'a\r\nb\n' }],
    });
    expect(heat.of(opened.document as never).map(({ line }) => line)).toEqual([10, 14]);
  });

  const at = (startLine: number, start: number, endLine: number, end: number, text: string) => ({
    range: new Range(startLine, start, endLine, end) as never,
    text,
  });
  const cases: [string, ReturnType<typeof at>[], number[]][] = [
    ['a line above', [at(2, 0, 2, 0, 'new\n')], [6]],
    ['a line below', [at(6, 0, 6, 0, 'new\n')], [5]],
    ['text within the line', [at(5, 4, 5, 8, 'x')], [5]],
    ['a line put at its beginning', [at(5, 0, 5, 0, 'new\n')], [6]],
    ['a line broken off at its end', [at(5, 9, 5, 9, '\n')], [5]],
    ['lines above taken away', [at(2, 0, 4, 0, '')], [3]],
    ['the line taken away', [at(5, 0, 6, 0, '')], []],
    ['lines around it taken away', [at(3, 2, 8, 1, '')], []],
    ['the line joined to the one above', [at(4, 7, 5, 0, '')], [4]],
    ['two edits, the lower one first', [at(7, 0, 7, 0, '\n'), at(1, 0, 1, 0, '\n\n')], [7]],
  ];
  test.each(cases)('%s', (_, changes, expected) => {
    expect(moved([warm(5)], changes).map(({ line }) => line)).toEqual(expected);
  });
});
