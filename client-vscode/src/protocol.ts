// What passes between the client and the server beside the protocol of language servers.
// The same shapes are in server/profile_neuron/lsp/notifications.py; a test compares the two.
// Lines count from 0, as everywhere on this wire.

/** What the client can do beside showing hints and lenses: capabilities.experimental.profileNeuron of initialize. */
export interface ClientCapabilities {
  readonly heat: boolean;
  readonly status: boolean;
  readonly report: boolean;
  readonly openCapture: boolean;
  readonly openPage: boolean;
}

/** initializationOptions. */
export interface InitializationOptions {
  /** Whether code of the workspace may be run. */
  readonly trusted: boolean;
  /** The Python that runs code where neither a setting nor a folder names one; empty for none. */
  readonly fallbackInterpreter: string;
}

/** A function: its file, its qualified name, and which definition of that name it is, from 0. */
export interface FunctionParams {
  readonly uri: string;
  readonly qualname: string;
  readonly occurrence: number;
}

/** To the server: whether code of the workspace may be run from now on. */
export const TRUST = 'profileNeuron/trust';
export interface TrustParams {
  readonly trusted: boolean;
}

/** To the server: which interpreters a person has chosen elsewhere in the editor; replaces what was said before. */
export const INTERPRETERS = 'profileNeuron/interpreters';
export interface InterpretersParams {
  readonly active: readonly ActiveInterpreter[];
}
export interface ActiveInterpreter {
  /** A workspace folder. */
  readonly uri: string;
  readonly path: string;
}

/** To the client: how warm the lines of a file are; replaces what was said of the file before. */
export const HEAT = 'profileNeuron/heat';
export interface HeatParams {
  readonly uri: string;
  /** The version of the text that the lines are of. */
  readonly version: number;
  readonly lines: readonly HeatLine[];
}
export interface HeatLine {
  readonly line: number;
  /** From 1, the least, to 5. */
  readonly level: number;
  /** The code was edited since it was measured. */
  readonly isStale: boolean;
}

/** To the client: what the status item says. */
export const STATUS = 'profileNeuron/status';
export interface StatusParams {
  /** Without an icon. */
  readonly text: string;
  /** Something is on that the person can wait for. */
  readonly isBusy: boolean;
  /** Whole sentences, one per line; empty for nothing more to say. */
  readonly detail: string;
  readonly interpreters: readonly InterpreterInUse[];
}
export interface InterpreterInUse {
  /** A workspace folder; empty for files outside of all. */
  readonly uri: string;
  readonly path: string;
  /** Where it comes from, in words. */
  readonly source: string;
  /** What is wrong with it and what to do, one sentence; empty for nothing that is known. */
  readonly problem: string;
}

/** To the client: open the report of a function, which is then asked for. */
export const SHOW_REPORT = 'profileNeuron/showReport';

/** From the client: the report of a function as it is now; the answer is a Report, or null where there is none. */
export const REPORT = 'profileNeuron/report';
export interface Report {
  readonly title: string;
  /** One sentence each: the state, the totals, how it was measured. */
  readonly summary: readonly string[];
  readonly isStale: boolean;
  /** What the time of a line is of: "neuron" or "cpu". */
  readonly measure: string;
  readonly rows: readonly ReportRow[];
  /** Time that is of no single line, remarks at lines, warnings: one sentence each. */
  readonly notes: readonly string[];
  /** Those of the whole function, the most costly first. */
  readonly operators: readonly ReportOperator[];
}
export interface ReportOperator {
  readonly name: string;
  readonly calls: string;
  /** Its own time on the host. */
  readonly host: string;
  /** Empty where it had none on a device. */
  readonly device: string;
}
export interface ReportRow {
  readonly line: number;
  readonly source: string;
  /** As in a hint; empty where nothing was measured. */
  readonly time: string;
  readonly share: string;
  /** From 0 to 1, for a bar; 0 where there is no time. */
  readonly part: number;
  readonly operators: string;
  readonly delta: string;
}

/** From the server, a request: show a capture by a means of the client's own, before a viewer reads it. */
export const OPEN_CAPTURE = 'profileNeuron/openCapture';
export interface OpenCaptureParams {
  readonly name: string;
  readonly folder: string;
  readonly mode: string;
}
/** From the server, a request: show the page of a viewer that runs where the server runs. */
export const OPEN_PAGE = 'profileNeuron/openPage';
export interface OpenPageParams {
  readonly url: string;
  /** The page asks this port for its data, by the name localhost. */
  readonly apiPort: number;
}
/** The answer to both. */
export interface OpenResult {
  readonly isShown: boolean;
  /** Why not, and what to do, one sentence; empty where there is nothing to say. */
  readonly problem: string;
}
