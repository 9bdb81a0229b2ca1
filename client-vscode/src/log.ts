// The one log of this extension, in which the server's lines are as well.

import { window, type LogOutputChannel } from 'vscode';

export const NAME = 'Neuron Profile';

export type Log = LogOutputChannel;

/** Made here and not by the language client, which would close its own while lines of the server still come. */
export function openLog(): Log {
  return window.createOutputChannel(NAME, { log: true });
}

/** A line that the server wrote, at the level that it names itself. */
export function writeServerLine(log: Log, line: string): void {
  if (/^(agent: )?(ERROR|CRITICAL) /.test(line)) {
    log.error(line);
  } else if (/^(agent: )?WARNING /.test(line)) {
    log.warn(line);
  } else {
    log.info(line);
  }
}

/** What an error says, whatever was thrown. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
