// Wires the parts of the extension; each is one concern in a file of its own.

import type { ExtensionContext } from 'vscode';
import { NotificationType, RequestType } from 'vscode-languageclient/node';

import { registerCommands } from './commands';
import { openCapture, openPage } from './explorer';
import { Heat } from './heat';
import { openLog } from './log';
import * as protocol from './protocol';
import { followInterpreters } from './pythonExtension';
import { Reports } from './report';
import { Server } from './server';
import { Status } from './status';
import { forwardTrust } from './trust';

type Opened = protocol.OpenResult;

let server: Server | undefined;

export function activate(context: ExtensionContext): void {
  const log = openLog();
  const started = new Server(context.extensionPath, log);
  server = started;
  const heat = new Heat();
  const status = new Status(started);
  const reports = new Reports(context.extensionUri, started);

  started.listen(new NotificationType<protocol.HeatParams>(protocol.HEAT), (params) => heat.take(params));
  started.listen(new NotificationType<protocol.StatusParams>(protocol.STATUS), (params) => status.take(params));
  started.listen(new NotificationType<protocol.FunctionParams>(protocol.SHOW_REPORT), (params) => reports.show(params));
  started.answer(new RequestType<protocol.OpenCaptureParams, Opened, void>(protocol.OPEN_CAPTURE), openCapture);
  started.answer(new RequestType<protocol.OpenPageParams, Opened, void>(protocol.OPEN_PAGE), openPage);

  context.subscriptions.push(
    log,
    heat,
    status,
    reports,
    registerCommands(started, heat, log),
    followInterpreters(started, log),
    forwardTrust(started),
    heat.onDidChange((uri) => reports.update(uri)),
    started.onDidChangeState((state) => {
      if (state === 'running') {
        reports.update();
      } else {
        heat.clear();
      }
    }),
  );
  void started.start();
}

/** The editor waits for this before it goes. */
export async function deactivate(): Promise<void> {
  await server?.stop();
}
