// Starts VS Code as code-server on a free port of loopback, and drives it in Chromium as a person would.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { setTimeout as pause } from 'node:timers/promises';

const CLIENT = path.resolve(import.meta.dirname, '..', '..');
export const REPOSITORY = path.dirname(CLIENT);
const EDITORS = process.env.EDITORS ?? path.join(CLIENT, '.editors');
// newest or oldest, as test/editors calls them.
export const VERSION = process.env.EDITOR_VERSION ?? 'newest';
const NODE = VERSION === 'newest' ? path.join(EDITORS, 'bin', 'node') : process.execPath;
const ENTRY = path.join(EDITORS, VERSION, 'node_modules/code-server/out/node/entry.js');
const { chromium } = createRequire(path.join(EDITORS, 'playwright', 'x.js'))('playwright-core');

// A run that nothing is known of begins with the start of an agent and of a worker with torch.
export const COLD_MS = 90_000;
export const SOON_MS = 30_000;

const QUIET = {
  'telemetry.telemetryLevel': 'off',
  'security.workspace.trust.enabled': false,
  'workbench.startupEditor': 'none',
  'workbench.tips.enabled': false,
  'workbench.enableExperiments': false,
  'workbench.secondarySideBar.defaultVisibility': 'hidden',
  'extensions.autoCheckUpdates': false,
  'extensions.autoUpdate': false,
  'extensions.ignoreRecommendations': true,
  'update.mode': 'none',
  'update.showReleaseNotes': false,
  'chat.disableAIFeatures': true,
  'git.enabled': false,
  'json.schemaDownload.enable': false,
  'typescript.disableAutomaticTypeAcquisition': true,
  'editor.minimap.enabled': false,
  'files.autoSave': 'off',
  'window.restoreWindows': 'none',
  'remote.autoForwardPorts': false,
  'workbench.colorTheme': 'Default Light Modern',
};

for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => process.exit(1));

/** The folders of one installation of the editor, with the extension and the probe in it. */
export class Home {
  constructor() {
    // Short, since a socket lies in it, whose path has 107 characters at most.
    this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'vse-'));
    for (const name of ['data/User', 'data/Machine', 'ext', 'home', 'chrome', 'ws'])
      fs.mkdirSync(this.at(name), { recursive: true });
    fs.writeFileSync(this.at('config.yaml'), 'bind-addr: 127.0.0.1:0\nauth: none\ncert: false\n');
    this.settings({});
    this.variables = {};
  }

  /** What the person's shell puts first in PATH; the editor asks a login shell for it. */
  path(...folders) {
    fs.writeFileSync(this.at('home', '.profile'), `PATH='${folders.join(':')}:/usr/bin:/bin'\nexport PATH\n`);
  }

  at(...names) {
    return path.join(this.folder, ...names);
  }

  /** What the person has set, beside what keeps the editor quiet. */
  settings(user, machine = {}) {
    fs.writeFileSync(this.at('data/User/settings.json'), JSON.stringify({ ...QUIET, ...user }, null, 2));
    fs.writeFileSync(this.at('data/Machine/settings.json'), JSON.stringify(machine, null, 2));
  }

  /** A workspace folder with files; a name maps to a text. */
  workspace(name, files) {
    for (const [file, text] of Object.entries(files)) {
      const at = this.at('ws', name, file);
      fs.mkdirSync(path.dirname(at), { recursive: true });
      fs.writeFileSync(at, text);
    }
    return this.at('ws', name);
  }

  install(vsix) {
    const result = spawnSync(NODE, [...this.#arguments(), '--install-extension', vsix], {
      env: this.#environment(),
      encoding: 'utf8',
      timeout: 60_000,
    });
    assert.match(result.stdout, /successfully installed/, `${result.stdout}\n${result.stderr}`);
  }

  async start() {
    const options = [
      '--auth',
      'none',
      '--disable-telemetry',
      '--disable-update-check',
      '--disable-getting-started-override',
      '--disable-proxy',
    ];
    // In its own process group, which is ended as a whole.
    const child = spawn(NODE, [...this.#arguments(), ...options], {
      env: this.#environment(),
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    // Nothing is left either where the tests themselves are ended.
    process.once('exit', () => signal(child, 'SIGKILL'));
    const editor = new Editor(this, child);
    await editor.up();
    return editor;
  }

  /** What the extension and its server wrote into their logs in the last window. */
  logs() {
    return fs
      .readdirSync(this.at('data/logs'), { recursive: true })
      .filter((name) => /exthost\d+\/profile-neuron|remoteexthost\.log$/.test(name) && name.endsWith('.log'))
      .map((name) => `--- ${name}\n${fs.readFileSync(this.at('data/logs', name), 'utf8').slice(-20_000)}`)
      .join('\n');
  }

  remove() {
    if (process.env.KEEP) console.log(`kept ${this.folder}`);
    else fs.rmSync(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }

  #arguments() {
    return [
      ENTRY,
      '--config',
      this.at('config.yaml'),
      '--user-data-dir',
      this.at('data'),
      '--extensions-dir',
      this.at('ext'),
    ];
  }

  #environment() {
    const kept = Object.entries(process.env).filter(
      ([name]) => !/^(VSCODE_|CODE_SERVER|npm_|XDG_|PYTHON|NODE_|VIRTUAL_ENV)/.test(name),
    );
    return {
      ...Object.fromEntries(kept),
      HOME: this.at('home'),
      SHELL: '/bin/bash',
      PROBE_FILE: this.at('probe.json'),
      EXTENSIONS_GALLERY: '{"serviceUrl":""}',
      ...this.variables,
    };
  }
}

/** A code-server that runs. */
class Editor {
  constructor(home, child) {
    this.home = home;
    this.child = child;
    this.log = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (this.log += data));
  }

  async up() {
    const listening = () => /HTTP server listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(this.log);
    await until(
      () => listening() || this.child.exitCode !== null,
      Boolean,
      SOON_MS,
      () => this.log,
    );
    assert.ok(listening(), this.log);
    this.port = Number(listening()[1]);
    // That it listens says nothing of the workbench, which answers 500 on a wrong Node. This also loads it.
    const response = await fetch(this.address(this.home.at('ws')));
    assert.equal(response.status, 200, this.log);
  }

  address(folder, payload = []) {
    const kind = folder.endsWith('.code-workspace') ? 'workspace' : 'folder';
    const query = new URLSearchParams({ [kind]: folder });
    if (payload.length) query.set('payload', JSON.stringify(payload));
    return `http://127.0.0.1:${this.port}/?${query}`;
  }

  /** A window with a folder or workspace in it. */
  async open(folder, { payload = [] } = {}) {
    fs.rmSync(this.home.at('probe.json'), { force: true });
    const window = new Window(this, folder);
    await window.open(payload);
    return window;
  }

  async stop() {
    if (this.child.exitCode !== null) return;
    const gone = new Promise((resolve) => this.child.once('exit', resolve));
    signal(this.child, 'SIGTERM');
    const late = setTimeout(() => signal(this.child, 'SIGKILL'), 5000);
    await gone;
    clearTimeout(late);
  }
}

function signal(child, name) {
  try {
    process.kill(-child.pid, name);
  } catch {
    // It is gone.
  }
}

/** A window of the editor in a browser of its own. */
export class Window {
  constructor(editor, folder) {
    this.editor = editor;
    this.folder = folder;
    this.outside = new Set();
    this.pages = [];
  }

  async open(payload) {
    this.context = await chromium.launchPersistentContext(fs.mkdtempSync(this.editor.home.at('chrome', 'c-')), {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      headless: true,
      viewport: { width: 1280, height: 900 },
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    });
    this.page = this.context.pages()[0] ?? (await this.context.newPage());
    this.page.setDefaultTimeout(SOON_MS);
    await this.context.route(
      ({ protocol, hostname }) => /^https?:$/.test(protocol) && hostname !== '127.0.0.1',
      (route) => this.#outside(route),
    );
    if (payload.length) await this.#listen();
    await this.page.addInitScript(takePortTemplate);
    await this.page.goto(this.editor.address(this.folder, payload), { waitUntil: 'domcontentloaded' });
  }

  #outside(route) {
    const { hostname, href } = new URL(route.request().url());
    // A page of Neuron Explorer is on this machine too, by another name.
    if (hostname === 'localhost') this.pages.push(href);
    else this.outside.add(href);
    return route.abort();
  }

  /** Take what tests inside of the extension host print, and how they end. */
  async #listen() {
    this.printed = [];
    await this.page.exposeFunction('codeAutomationLog', (type, args) => {
      this.printed.push(`[${type}] ${args.join(' ')}`);
      if (/^(not ok|ok|\d+ passed)/.test(args[0])) console.log(args[0]);
    });
    await this.page.exposeFunction('codeAutomationExit', (code) => (this.code = code));
    await this.page.addInitScript(heedPayload);
  }

  /** How the tests inside of the extension host ended: their exit code and what they printed. */
  async ended(timeout) {
    const code = await this.until(
      () => this.code,
      (seen) => seen !== undefined,
      timeout,
    );
    return { code, lines: this.printed };
  }

  async ready() {
    await this.page.waitForSelector('.explorer-folders-view .monaco-list-row', { timeout: COLD_MS });
    return this;
  }

  /** Close it as a person does, who closes the tab. */
  async close() {
    if (!this.page || this.page.isClosed()) return this.context?.close();
    const closed = this.page.waitForEvent('close');
    // It asks about what is not saved.
    this.page.on('dialog', (dialog) => dialog.accept());
    await this.page.close({ runBeforeUnload: true });
    await closed;
    await this.context.close();
  }

  /** What the extension host answers to one of the probe's questions. */
  async ask(question, ...args) {
    const file = this.editor.home.at('probe.json');
    await until(
      () => fs.existsSync(file),
      Boolean,
      SOON_MS,
      () => 'the probe did not start',
    );
    const { port } = JSON.parse(fs.readFileSync(file, 'utf8'));
    const response = await fetch(`http://127.0.0.1:${port}`, {
      method: 'POST',
      body: JSON.stringify([question, ...args]),
    });
    const { answer, error } = await response.json();
    if (error) throw new Error(error);
    return answer;
  }

  /** Have a key open the box for input; one that is pressed before the workbench listens does nothing. */
  async quickInput(key) {
    const box = this.page.locator('.quick-input-box input');
    await this.until(
      async () => {
        await this.page.keyboard.press(key);
        return box.waitFor({ timeout: 3000 }).then(
          () => true,
          () => false,
        );
      },
      (isOpen) => isOpen,
    );
  }

  /** Open a file of the folder by its name, from the keyboard. */
  async openFile(name) {
    await this.quickInput('Control+P');
    await this.page.keyboard.type(name);
    await this.page.locator('.quick-input-list .monaco-list-row.focused', { hasText: path.basename(name) }).waitFor();
    await this.page.keyboard.press('Enter');
    await this.page.locator('.tab.active', { hasText: path.basename(name) }).waitFor();
    await this.page.locator('.editor-instance .view-line').first().waitFor();
  }

  /** Run a command from the palette. */
  async command(title) {
    await this.quickInput('F1');
    await this.page.keyboard.type(title);
    await this.page.locator('.quick-input-list .monaco-list-row.focused', { hasText: title }).waitFor();
    await this.page.keyboard.press('Enter');
  }

  /** Put the cursor there: line and column from 1. */
  async goTo(line, column = 1) {
    await this.quickInput('Control+G');
    await this.page.keyboard.type(`${line}:${column}`);
    await this.page.keyboard.press('Enter');
    await this.page.locator('.quick-input-box input').waitFor({ state: 'hidden' });
  }

  async save() {
    await this.page.keyboard.press('Control+S');
    await this.page.locator('.tab.active.dirty').waitFor({ state: 'detached' });
  }

  /** The hints on the screen: text by line from 1. */
  hints() {
    return this.page.evaluate(() => {
      const numbers = [...document.querySelectorAll('.monaco-editor .margin .line-numbers')];
      const lineAt = (top) => numbers.find((item) => Math.abs(item.getBoundingClientRect().top - top) < 4)?.textContent;
      const found = {};
      // A hint is text that is put into a line: a span of a class of its own, beside empty ones that pad it.
      for (const span of document.querySelectorAll('.monaco-editor .view-line span[class*="dyn-rule-"]')) {
        // The screen has non-breaking blanks.
        const text = span.textContent.replaceAll('\u00a0', ' ').trim();
        const line = Number(lineAt(span.closest('.view-line').getBoundingClientRect().top));
        if (text) found[line] = found[line] ? `${found[line]} ${text}` : text;
      }
      return found;
    });
  }

  /** The bars beside lines: by line from 1, how wide, and solid or dotted. */
  heat() {
    return this.page.evaluate(() => {
      const numbers = [...document.querySelectorAll('.monaco-editor .margin .line-numbers')];
      const lineAt = (top) => numbers.find((item) => Math.abs(item.getBoundingClientRect().top - top) < 4)?.textContent;
      const found = {};
      for (const element of document.querySelectorAll('.monaco-editor .view-overlays .cdr[class*="ced-"]')) {
        const { borderLeftWidth, borderLeftStyle } = getComputedStyle(element);
        const width = Number.parseInt(borderLeftWidth);
        const line = Number(lineAt(element.getBoundingClientRect().top));
        if (width > 0) found[line] = `${width} ${borderLeftStyle}`;
      }
      return found;
    });
  }

  /** The titles of the lenses on the screen, from top to bottom. */
  lenses() {
    return this.page.evaluate(() =>
      [...document.querySelectorAll('.monaco-editor .codelens-decoration a')]
        .map((item) => ({ box: item.getBoundingClientRect(), text: item.textContent.replaceAll('\u00a0', ' ').trim() }))
        .sort((a, b) => a.box.top - b.box.top || a.box.left - b.box.left)
        .map(({ text }) => text),
    );
  }

  /** What is underlined on the screen: lines from 1. */
  underlined() {
    return this.page.evaluate(() => {
      const numbers = [...document.querySelectorAll('.monaco-editor .margin .line-numbers')];
      const lineAt = (top) => numbers.find((item) => Math.abs(item.getBoundingClientRect().top - top) < 4)?.textContent;
      const found = [...document.querySelectorAll('.monaco-editor .view-overlays .cdr[class*="squiggly"]')];
      return found.map((element) => Number(lineAt(element.getBoundingClientRect().top)));
    });
  }

  lens(title) {
    return this.page.locator('.monaco-editor .codelens-decoration a', { hasText: title });
  }

  /** What the editor shows while something is on, in the status bar or in a corner. */
  progress(text) {
    return this.page.locator('.statusbar-item, .notification-list-item-message').filter({ hasText: text });
  }

  /** A message in a corner of the window. */
  message(text) {
    return this.page.locator('.notification-list-item-message', { hasText: text });
  }

  /** The text of the extension's item in the status bar; empty where it has none. */
  status() {
    return this.page.evaluate(() => {
      const item = [...document.querySelectorAll('.statusbar-item')].find((one) => /profileNeuron/.test(one.id));
      return item ? item.textContent.replaceAll('\u00a0', ' ').trim() : '';
    });
  }

  async until(look, fits, timeout = SOON_MS) {
    try {
      return await until(look, fits, timeout, () => this.editor.home.logs());
    } catch (error) {
      await this.screenshot('trouble');
      throw error;
    }
  }

  async screenshot(name) {
    const folder = path.join(CLIENT, 'shots');
    fs.mkdirSync(folder, { recursive: true });
    await this.page.screenshot({ path: path.join(folder, `${name}-${VERSION}.png`) });
  }
}

/** The first look that fits. Raises with the last one, and with what else there is to say. */
export async function until(look, fits, timeout = SOON_MS, more = () => '') {
  const end = Date.now() + timeout;
  for (;;) {
    const seen = await look();
    if (fits(seen)) return seen;
    if (Date.now() > end) throw new Error(`what is seen stays ${JSON.stringify(seen)}\nfor ${fits}\n${more()}`);
    await pause(50);
  }
}

/** A built workbench reads the payload of its address only with this option, which it takes from the page. */
function heedPayload() {
  new MutationObserver((_, observer) => {
    const element = document.getElementById('vscode-workbench-web-configuration');
    if (!element) return;
    observer.disconnect();
    const settings = JSON.parse(element.getAttribute('data-settings'));
    settings.developmentOptions = { ...settings.developmentOptions, enableSmokeTestDriver: true };
    element.setAttribute('data-settings', JSON.stringify(settings));
  }).observe(document, { childList: true, subtree: true });
}

/** The workbench makes a URL of the template for forwarded ports, which is none where the port is to be the port. */
function takePortTemplate() {
  globalThis.URL = class extends URL {
    constructor(url, base) {
      super(String(url).replace(':{{port}}', ''), base);
    }
  };
}
