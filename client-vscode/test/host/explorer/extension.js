// A stand-in for the extension AWS Neuron Explorer: a command with a title as its documentation has it.

const vscode = require('vscode');

exports.activate = (context) => {
  const opened = [];
  context.subscriptions.push(vscode.commands.registerCommand('standIn.open', (uri) => opened.push(uri?.fsPath)));
  return { opened };
};
