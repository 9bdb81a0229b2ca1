import { beforeEach, expect, test } from 'vitest';

import { Heat } from '../../src/heat';
import { goToHotLine, hotLine } from '../../src/hotLines';
import { open, reset, window } from './vscode';

const HEAT = [
  { line: 20, level: 5, isStale: false },
  { line: 5, level: 3, isStale: false },
  { line: 10, level: 4, isStale: true },
  { line: 7, level: 2, isStale: false },
];

beforeEach(reset);

test('next and previous go in the order of the text, past lines that are only warm', () => {
  expect(hotLine(HEAT, 5, 'next')).toBe(10);
  expect(hotLine(HEAT, 6, 'next')).toBe(10);
  expect(hotLine(HEAT, 10, 'previous')).toBe(5);
});

test('after the last comes the first, and before the first the last', () => {
  expect(hotLine(HEAT, 20, 'next')).toBe(5);
  expect(hotLine(HEAT, 5, 'previous')).toBe(20);
});

test('where no line is hot, warm ones count', () => {
  const warm = HEAT.map((one) => ({ ...one, level: 1 }));
  expect(hotLine(warm, 5, 'next')).toBe(7);
});

test('the only hot line is where the cursor stays', () => {
  expect(hotLine([HEAT[0]!], 20, 'next')).toBe(20);
});

test('there is none without heat', () => {
  expect(hotLine([], 5, 'next')).toBeUndefined();
});

test('the cursor goes to the first text of the line', () => {
  const opened = open('/code/model.py', 100, 6);
  const heat = new Heat();
  heat.take({ uri: 'file:///code/model.py', version: 1, lines: HEAT });
  goToHotLine(heat, 'next');
  expect(opened.selection.active).toEqual({ line: 10, character: 4 });
  expect(opened.revealRange).toHaveBeenCalledOnce();
});

test('a file without heat is told so', () => {
  open('/code/other.py');
  goToHotLine(new Heat(), 'next');
  expect(window.setStatusBarMessage).toHaveBeenCalledWith(
    'Neuron Profile has no times for lines of this file',
    expect.any(Number),
  );
});
