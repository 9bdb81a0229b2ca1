// A stand-in for the Python extension: the part of its interface that tells which interpreter is active.

const path = require('node:path');
const vscode = require('vscode');

exports.activate = () => {
  const changed = new vscode.EventEmitter();
  const active = JSON.parse(process.env.ACTIVE_INTERPRETER ?? '{}');
  const nameOf = (resource) => path.basename((resource?.uri ?? resource)?.fsPath ?? '');
  return {
    environments: {
      getActiveEnvironmentPath: (resource) => ({ id: nameOf(resource), path: active[nameOf(resource)] ?? 'python' }),
      resolveEnvironment: async (environment) => {
        const file = environment.path ?? environment;
        return path.isAbsolute(file) ? { id: file, path: file, executable: { uri: vscode.Uri.file(file) } } : undefined;
      },
      onDidChangeActiveEnvironmentPath: changed.event,
    },
  };
};
