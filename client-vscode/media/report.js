// Puts a report into the page. All of it is text; nothing of it is ever read as markup.

(() => {
  /** @type {{ postMessage(message: unknown): void, getState(): unknown, setState(state: unknown): void }} */
  // @ts-expect-error: the editor gives it to the page
  const editor = acquireVsCodeApi();
  const WIDEST_EM = 6;
  const main = /** @type {HTMLElement} */ (document.getElementById('report'));

  window.addEventListener('message', ({ data }) => {
    if (data && 'report' in data) {
      show(data.report);
    }
  });
  window.addEventListener('scroll', () => editor.setState({ top: window.scrollY }));
  editor.postMessage({ kind: 'ready' });

  /** @param {import('../src/protocol').Report | null} report */
  function show(report) {
    const isFirst = main.childElementCount === 0;
    const focused = document.activeElement?.id;
    main.replaceChildren(...(report === null ? [element('p', 'There is no result of this function.')] : parts(report)));
    const state = /** @type {{ top?: number } | undefined} */ (editor.getState());
    if (isFirst && state?.top) {
      window.scrollTo(0, state.top);
    }
    // Who goes through the lines by keyboard stays on theirs.
    if (focused) {
      document.getElementById(focused)?.focus();
    }
  }

  /** @param {import('../src/protocol').Report} report */
  function parts(report) {
    const heading = element('h1', report.title);
    const summary = element('div', '', 'summary');
    summary.append(...report.summary.map((line) => element('p', line)));
    const notes = element('ul', '', 'notes');
    notes.append(...report.notes.map((note) => element('li', note)));
    return [
      heading,
      summary,
      lineTable(report),
      ...(report.notes.length > 0 ? [element('h2', 'Notes'), notes] : []),
      ...(report.operators.length > 0 ? [operatorTable(report.operators)] : []),
    ];
  }

  /** @param {import('../src/protocol').Report} report */
  function lineTable(report) {
    const caption = report.isStale ? 'Lines, as they were measured earlier' : 'Lines';
    const hasDelta = report.rows.some((row) => row.delta !== '');
    const names = ['Line', report.measure, 'Share', 'Operators', ...(hasDelta ? ['Change'] : []), 'Source'];
    const rows = report.rows.map((row) => rowOf(row, hasDelta));
    return table(report.isStale ? 'lines stale' : 'lines', caption, names, ['Line', report.measure, 'Change'], rows);
  }

  /** @param {readonly import('../src/protocol').ReportOperator[]} operators */
  function operatorTable(operators) {
    const hasDevice = operators.some(({ device }) => device !== '');
    const numbers = ['Calls', 'Host', ...(hasDevice ? ['Device'] : [])];
    const rows = operators.map(({ name, calls, host, device }) => {
      const row = element('tr');
      const cells = [calls, host, ...(hasDevice ? [device] : [])].map((text) => element('td', text, 'number'));
      row.append(scoped(element('th', name), 'row'), ...cells);
      return row;
    });
    return table('', 'Operators, each with its own time', ['Operator', ...numbers], numbers, rows);
  }

  /**
   * @param {string} style
   * @param {string} caption
   * @param {string[]} names
   * @param {string[]} numbers names of columns that hold numbers
   * @param {HTMLElement[]} rows
   */
  function table(style, caption, names, numbers, rows) {
    const head = element('tr');
    head.append(...names.map((name) => scoped(element('th', name, numbers.includes(name) ? 'number' : ''), 'col')));
    const top = element('thead');
    top.append(head);
    const body = element('tbody');
    body.append(...rows);
    const whole = element('table', '', style);
    whole.append(element('caption', caption), top, body);
    return whole;
  }

  /**
   * @param {import('../src/protocol').ReportRow} row
   * @param {boolean} hasDelta
   */
  function rowOf(row, hasDelta) {
    const go = element('button', String(row.line + 1));
    go.id = `line-${row.line}`;
    go.setAttribute('aria-label', `Go to line ${row.line + 1}`);
    const number = scoped(element('th', '', 'number'), 'row');
    number.append(go);
    const share = element('td', '', 'share');
    share.append(element('span', row.share, 'amount'), ...(row.part > 0 ? [bar(row.part)] : []));
    const cells = [
      number,
      element('td', row.time, 'number'),
      share,
      element('td', row.operators, 'operators'),
      ...(hasDelta ? [element('td', row.delta, 'number')] : []),
      element('td', row.source, 'source'),
    ];
    const whole = element('tr');
    whole.append(...cells);
    whole.addEventListener('click', () => editor.postMessage({ kind: 'reveal', line: row.line }));
    return whole;
  }

  /**
   * A bar says again what the share beside it says, so it is not read out.
   * @param {number} part
   */
  function bar(part) {
    const whole = element('span', '', 'bar');
    whole.setAttribute('aria-hidden', 'true');
    whole.style.width = `${(Math.min(part, 1) * WIDEST_EM).toFixed(2)}em`;
    return whole;
  }

  /**
   * @param {HTMLElement} cell
   * @param {string} scope
   */
  function scoped(cell, scope) {
    cell.setAttribute('scope', scope);
    return cell;
  }

  /**
   * @param {string} name
   * @param {string} [text]
   * @param {string} [style]
   */
  function element(name, text = '', style = '') {
    const made = document.createElement(name);
    made.textContent = text;
    made.className = style;
    return made;
  }
})();
