import * as fs from 'node:fs';
import * as path from 'node:path';

import { beforeEach, expect, test } from 'vitest';

import { registerCommands } from '../../src/commands';
import { Heat } from '../../src/heat';
import { editor, log, reset } from './vscode';

const ROOT = path.join(__dirname, '..', '..');

interface Manifest {
  readonly icon: string;
  readonly contributes: {
    readonly commands: readonly { readonly command: string }[];
    readonly menus: Readonly<Record<string, readonly { readonly command: string; readonly when: string }[]>>;
    readonly colors: readonly { readonly id: string; readonly defaults: object }[];
    readonly walkthroughs: readonly { readonly steps: readonly { readonly media: { readonly markdown: string } }[] }[];
  };
}

const text = read('package.json');
const manifest = JSON.parse(text) as Manifest;
const strings = JSON.parse(read('package.nls.json')) as Record<string, string>;

beforeEach(reset);

function read(name: string): string {
  return fs.readFileSync(path.join(ROOT, name), 'utf8');
}

test('every text of the manifest is in the file of texts, and none there is left over', () => {
  const used = [...text.matchAll(/"%([^%"]+)%"/g)].map((match) => match[1]);
  expect([...new Set(used)].sort()).toEqual(Object.keys(strings).sort());
});

test('every command that is offered has a handler, and every handler is offered', () => {
  registerCommands({} as never, new Heat(), log as never);
  const offered = manifest.contributes.commands.map(({ command }) => command);
  expect(offered.sort()).toEqual([...editor.commands.keys()].sort());
});

test('menus offer only commands that there are, and what runs code only where that is trusted', () => {
  const offered = manifest.contributes.commands.map(({ command }) => command);
  for (const { command, when } of Object.values(manifest.contributes.menus).flat()) {
    expect(offered).toContain(command);
    if (/\.(profile\w+|doctor|openInExplorer|selectInputs)$/.test(command)) {
      expect(when).toContain('isWorkspaceTrusted');
    }
  }
});

test('texts and code name only commands that there are', () => {
  const offered = manifest.contributes.commands.map(({ command }) => command);
  const named = Object.values(strings).flatMap((one) => [...one.matchAll(/command:(profileNeuron\.\w+)/g)]);
  expect(named.length).toBeGreaterThan(0);
  for (const [, command] of named) {
    expect(offered).toContain(command);
  }
});

test('every colour that is painted is contributed, for four kinds of themes', () => {
  const colours = manifest.contributes.colors;
  expect(colours.map(({ id }) => id)).toEqual([
    ...[1, 2, 3, 4, 5].map((level) => `profileNeuron.heat${level}`),
    'profileNeuron.stale',
  ]);
  for (const { defaults } of colours) {
    expect(Object.keys(defaults)).toEqual(['dark', 'light', 'highContrast', 'highContrastLight']);
  }
});

test('the walkthrough has at most five steps, whose pages are there, and so is the icon', () => {
  const steps = manifest.contributes.walkthroughs.flatMap((walkthrough) => walkthrough.steps);
  expect(steps.length).toBeLessThanOrEqual(5);
  for (const file of [manifest.icon, ...steps.map(({ media }) => media.markdown)]) {
    expect(fs.existsSync(path.join(ROOT, file)), file).toBe(true);
  }
});
