// Lets a test ask the extension host of a window: what the providers answer, as the editor itself asks them.
// It listens on loopback, and writes at which port to the file that PROBE_FILE names.

const http = require('node:http');
const fs = require('node:fs');
const vscode = require('vscode');

const QUESTIONS = {
  /** Every inlay hint of a file: line from 1, column from 0, and label. */
  async hints(file) {
    const document = await vscode.workspace.openTextDocument(file);
    const all = new vscode.Range(0, 0, document.lineCount, 0);
    const found = await vscode.commands.executeCommand('vscode.executeInlayHintProvider', document.uri, all);
    return found.map(({ position, label }) => ({
      line: position.line + 1,
      column: position.character,
      label: typeof label === 'string' ? label : label.map((part) => part.value).join(''),
    }));
  },
  /** Every lens of a file: line from 1, title, command. */
  async lenses(file) {
    const found = await vscode.commands.executeCommand('vscode.executeCodeLensProvider', vscode.Uri.file(file), 1000);
    return found.map(({ range, command }) => ({
      line: range.start.line + 1,
      title: command?.title ?? '',
      command: command?.command ?? '',
    }));
  },
  /** Diagnostics of a file: line from 1, code, message. */
  async diagnostics(file) {
    return vscode.languages.getDiagnostics(vscode.Uri.file(file)).map(({ range, code, message }) => ({
      line: range.start.line + 1,
      code: typeof code === 'object' ? code.value : code,
      message,
    }));
  },
  /** The text of an open file as the editor has it. */
  async text(file) {
    return (await vscode.workspace.openTextDocument(file)).getText();
  },
  async commands() {
    return vscode.commands.getCommands(true);
  },
  async execute(command, ...args) {
    return vscode.commands.executeCommand(command, ...args);
  },
  async version() {
    return vscode.version;
  },
  async processId() {
    return process.pid;
  },
};

exports.activate = (context) => {
  const server = http.createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    try {
      const [question, ...args] = JSON.parse(body);
      response.end(JSON.stringify({ answer: (await QUESTIONS[question](...args)) ?? null }));
    } catch (error) {
      response.end(JSON.stringify({ error: String(error?.stack ?? error) }));
    }
  });
  context.subscriptions.push({ dispose: () => server.close() });
  server.listen(0, '127.0.0.1', () => {
    const file = process.env.PROBE_FILE;
    fs.writeFileSync(`${file}.new`, JSON.stringify({ port: server.address().port, pid: process.pid }));
    fs.renameSync(`${file}.new`, file);
  });
};
