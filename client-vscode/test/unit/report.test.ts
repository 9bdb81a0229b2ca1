import * as fs from 'node:fs';
import * as path from 'node:path';
import * as vm from 'node:vm';

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import type { Report } from '../../src/protocol';
import { Reports, pageHtml, toldBy } from '../../src/report';
import type { Server } from '../../src/server';
import { Uri, editor, open, reset, window } from './vscode';

const MEDIA = path.join(__dirname, '..', '..', 'media');
const FORWARD = { uri: 'file:///code/model.py', qualname: 'Block.forward', occurrence: 0 };
const REPORT: Report = {
  title: 'Block.forward',
  summary: ['Fresh, 36.2 µs.'],
  isStale: false,
  measure: 'cpu',
  rows: [
    { line: 10, source: 'def forward(self, x):', time: '', share: '', part: 0, operators: '', delta: '' },
    {
      line: 11,
      source: '    return "<img src=x onerror=alert(1)>"',
      time: '36.2 µs',
      share: '100 %',
      part: 0.5,
      operators: '1 op',
      delta: '',
    },
  ],
  notes: ['<script>alert(2)</script>'],
  operators: [{ name: 'aten::<b>', calls: '3', host: '36.2 µs', device: '' }],
};

beforeEach(() => {
  reset();
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe('the page', () => {
  const webview = { cspSource: 'https://source.of.webviews', asWebviewUri: (uri: Uri) => uri };
  const html = pageHtml(webview as never, Uri.file('/ext/media') as never, 'NONCE');

  test('may load nothing but its style and its one script', () => {
    const policy = /Content-Security-Policy" content="([^"]*)"/.exec(html)?.[1];
    expect(policy).toBe("default-src 'none'; style-src https://source.of.webviews; script-src 'nonce-NONCE'");
    expect(html.match(/<script[^>]*>/g)).toEqual(['<script nonce="NONCE" src="file:///ext/media/report.js">']);
    expect(html).not.toMatch(/ style=| on[a-z]+=|https?:\/\/(?!source\.of\.webviews)/);
  });

  test('a folder with quotes in its name stays an address', () => {
    const quoted = { ...webview, asWebviewUri: () => '/a"b<c&d' };
    expect(pageHtml(quoted as never, Uri.file('/') as never, 'N')).toContain('href="/a&quot;b&lt;c&amp;d"');
  });

  test('what it may say is one of two things', () => {
    expect(toldBy({ kind: 'ready' })).toEqual({ kind: 'ready' });
    expect(toldBy({ kind: 'reveal', line: 3 })).toEqual({ kind: 'reveal', line: 3 });
    for (const other of [null, 'ready', {}, { kind: 'reveal' }, { kind: 'reveal', line: -1 }, { kind: 'x', line: 1 }]) {
      expect(toldBy(other)).toBeUndefined();
    }
  });
});

describe('reports of functions', () => {
  const ask = vi.fn((): Promise<unknown> => Promise.resolve(REPORT));
  const reports = () => new Reports(Uri.file('/ext') as never, { ask } as unknown as Server);

  test('one page per function, which comes to the front when it is asked for again', () => {
    const all = reports();
    all.show(FORWARD);
    all.show(FORWARD);
    all.show({ ...FORWARD, occurrence: 1 });
    expect(editor.panels).toHaveLength(2);
    expect(editor.panels[0]?.reveal).toHaveBeenCalledTimes(2);
    expect(editor.panels[0]?.options).toMatchObject({ localResourceRoots: [{ path: '/ext/media' }] });
  });

  test('several changes of its file are one new report, those of other files none', async () => {
    const all = reports();
    all.show(FORWARD);
    await vi.runAllTimersAsync();
    ask.mockClear();
    all.update('file:///code/model.py');
    all.update();
    await vi.runAllTimersAsync();
    all.update('file:///code/other.py');
    await vi.runAllTimersAsync();
    expect(ask.mock.calls).toEqual([['profileNeuron/report', FORWARD]]);
    expect(editor.panels[0]?.posted.at(-1)).toEqual({ report: REPORT });
  });

  test('a page that was hidden gets its report again when it is back', async () => {
    reports().show(FORWARD);
    editor.panels[0]?.received.fire({ kind: 'ready' });
    await vi.runAllTimersAsync();
    expect(editor.panels[0]?.posted).toEqual([{ report: REPORT }, { report: REPORT }]);
  });

  test('what is shown stays while the server is away, and goes when there is no result', async () => {
    const all = reports();
    all.show(FORWARD);
    ask.mockResolvedValueOnce(undefined);
    await vi.runAllTimersAsync();
    expect(editor.panels[0]?.posted).toEqual([]);
    ask.mockResolvedValueOnce(null);
    all.update();
    await vi.runAllTimersAsync();
    expect(editor.panels[0]?.posted).toEqual([{ report: null }]);
  });

  test('a page that was closed asks for nothing, and the next one is new', async () => {
    const all = reports();
    all.show(FORWARD);
    editor.panels[0]?.dispose();
    ask.mockClear();
    await vi.runAllTimersAsync();
    expect(ask).not.toHaveBeenCalled();
    all.show(FORWARD);
    expect(editor.panels).toHaveLength(2);
  });

  test('a line that is clicked is shown beside it', async () => {
    const opened = open('/code/model.py');
    window.showTextDocument.mockResolvedValueOnce(opened);
    reports().show(FORWARD);
    editor.panels[0]?.received.fire({ kind: 'reveal', line: 11 });
    await vi.advanceTimersByTimeAsync(0);
    expect(String(window.showTextDocument.mock.calls[0]?.[0])).toBe('file:///code/model.py');
    expect(opened.selection.active.line).toBe(11);
  });
});

describe('the script of the page', () => {
  /** As much of a page's document as the script may use: text and attributes, no markup. */
  class Node {
    textContent = '';
    className = '';
    readonly style: Record<string, string> = {};
    readonly attributes: Record<string, string> = {};
    readonly listeners: Record<string, () => void> = {};
    children: Node[] = [];
    constructor(readonly name: string) {}
    get childElementCount(): number {
      return this.children.length;
    }
    append(...nodes: Node[]): void {
      this.children.push(...nodes);
    }
    replaceChildren(...nodes: Node[]): void {
      this.children = nodes;
    }
    setAttribute(name: string, value: string): void {
      this.attributes[name] = value;
    }
    addEventListener(name: string, listener: () => void): void {
      this.listeners[name] = listener;
    }
    all(name: string): Node[] {
      return this.children.flatMap((child) => [...(child.name === name ? [child] : []), ...child.all(name)]);
    }
    get text(): string {
      return this.textContent + this.children.map((child) => child.text).join('');
    }
  }

  function shown(report: Report | null) {
    const main = new Node('main');
    const posted: unknown[] = [];
    const listeners: Record<string, (event: unknown) => void> = {};
    const context = {
      document: { activeElement: null, getElementById: () => main, createElement: (name: string) => new Node(name) },
      window: { addEventListener: (name: string, listener: () => void) => (listeners[name] = listener) },
      acquireVsCodeApi: () => ({ postMessage: (one: unknown) => posted.push(one), getState: () => undefined }),
    };
    vm.runInNewContext(fs.readFileSync(path.join(MEDIA, 'report.js'), 'utf8'), context);
    listeners.message?.({ data: { report } });
    return { main, posted };
  }

  test('asks for the report when it is there', () => {
    expect(shown(REPORT).posted).toEqual([{ kind: 'ready' }]);
  });

  test('makes a table with a heading for each column and row', () => {
    const { main } = shown({ ...REPORT, operators: [] });
    const headings = main.all('th').map((one) => [one.attributes.scope, one.text]);
    expect(headings).toEqual([
      ...['Line', 'cpu', 'Share', 'Operators', 'Source'].map((name) => ['col', name]),
      ['row', '11'],
      ['row', '12'],
    ]);
    expect(main.all('caption')[0]?.text).toBe('Lines');
    const cells = main
      .all('tr')
      .at(-1)
      ?.all('td')
      .map((cell) => cell.text);
    expect(cells).toEqual(['36.2 µs', '100 %', '1 op', '    return "<img src=x onerror=alert(1)>"']);
    expect(main.all('li').map((one) => one.text)).toEqual(['<script>alert(2)</script>']);
  });

  test('draws a bar as long as the part, which is not read out', () => {
    const bars = shown(REPORT)
      .main.all('span')
      .filter(({ className }) => className === 'bar');
    expect(bars.map((bar) => [bar.style.width, bar.attributes['aria-hidden']])).toEqual([['3.00em', 'true']]);
  });

  test('has changes only where there is one', () => {
    const rows = REPORT.rows.map((row) => ({ ...row, delta: '▲12 %' }));
    expect(
      shown({ ...REPORT, rows })
        .main.all('th')
        .map((one) => one.text),
    ).toContain('Change');
  });

  test('has a table of operators, whose device column is there where one of them has device time', () => {
    const operatorsOf = (device: string) => {
      const { main } = shown({ ...REPORT, operators: [{ name: 'aten::<b>', calls: '3', host: '36.2 µs', device }] });
      const table = main.all('table').at(-1);
      return [...(table?.all('th') ?? []), ...(table?.all('td') ?? [])].map((one) => one.text);
    };
    expect(operatorsOf('')).toEqual(['Operator', 'Calls', 'Host', 'aten::<b>', '3', '36.2 µs']);
    expect(operatorsOf('1.00 ms')).toEqual([
      'Operator',
      'Calls',
      'Host',
      'Device',
      'aten::<b>',
      '3',
      '36.2 µs',
      '1.00 ms',
    ]);
  });

  test('says in words that the times are not of the present code', () => {
    const { main } = shown({ ...REPORT, isStale: true });
    expect(main.all('caption')[0]?.text).toBe('Lines, as they were measured earlier');
  });

  test('goes to the line of a row', () => {
    const { main, posted } = shown(REPORT);
    main.all('table')[0]?.all('tr').at(-1)?.listeners.click?.();
    expect(posted.at(-1)).toEqual({ kind: 'reveal', line: 11 });
  });

  test('says that there is no result', () => {
    expect(shown(null).main.text).toBe('There is no result of this function.');
  });
});
