// SPDX-License-Identifier: Apache-2.0
// Types of commands and of their context.
import type { Input } from "./input.ts";

/** Source of values for shell completion. */
export type ValueSource =
  | "vms"
  | "networks"
  | "interfaces"
  | "namespaces"
  | "images"
  | "shells"
  | "formats"
  | "files"
  | "directories";

export interface FlagSpec {
  /** Flag in commander's notation, for example `--name <name>`. */
  readonly flags: string;
  readonly description: string;
  readonly required?: boolean;
  /** Type of the value; unset for a string. */
  readonly kind?: "duration" | "port" | "count" | "group" | "quantity";
  readonly choices?: readonly string[];
  /** Names of flags, in camel case, that must not be used together with this flag. */
  readonly conflicts?: readonly string[];
  readonly isRepeatable?: boolean;
  /** Default value, as a user would type it and as the help shows it. */
  readonly fallback?: string;
  /** Source of values for shell completion; unset if completion offers no values. */
  readonly values?: ValueSource;
}

export interface CommandSpec {
  /** Name as the user types it: one word, or a group and a word. */
  readonly name: string;
  readonly aliases?: readonly string[];
  /** Arguments in commander's notation, for example `<vm>`. */
  readonly args: readonly string[];
  /** Sources of values for shell completion, one for each argument. */
  readonly values?: readonly ValueSource[];
  readonly isHidden?: boolean;
  readonly summary: string;
  readonly flags: readonly FlagSpec[];
}

/** `run` imports large modules on demand, so that the help and other commands do not load them. */
export interface Command extends CommandSpec {
  readonly run: (context: Context, input: Input) => Promise<void>;
}

export interface CommandLine {
  readonly commands: readonly CommandSpec[];
  /** Descriptions of command groups, such as `image`, by the group's name. */
  readonly groups: Readonly<Record<string, string>>;
  readonly flags: readonly FlagSpec[];
}

export type OutputFormat = "table" | "json" | "yaml" | "name";

export const OUTPUT_FORMATS: readonly OutputFormat[] = ["table", "json", "yaml", "name"];

export interface Output {
  write(text: string): void;
}

export interface Environment {
  readonly kubeconfig?: string;
  readonly home?: string;
  /** Whether the process runs in a pod of a cluster. Default: false. */
  readonly isPod?: boolean;
  /** Command and arguments with which a child process starts this program again. If unset, the child starts `patchbay`. */
  readonly program?: readonly string[];
  /** Umask of the process that called patchbay, for programs that write the user's files. Default: 022. */
  readonly callersUmask?: number;
}

export interface GlobalOptions {
  readonly kubeconfig?: string;
  readonly namespace?: string;
  readonly output: OutputFormat;
  readonly dataDir: string;
}

export interface Context {
  readonly out: Output;
  readonly err: Output;
  readonly global: GlobalOptions;
  readonly environment: Environment;
  readonly version: string;
  /** All commands, for shell completion. */
  readonly commandLine: CommandLine;
  readonly signal: AbortSignal;
}

/** Ends this program with the exit code of a child, for example ssh. No message is shown, because the child has already printed one. */
export class ProgramEnded extends Error {
  readonly exitCode: number;

  constructor(exitCode: number) {
    super(`it ended with ${String(exitCode)}`);
    this.exitCode = exitCode;
  }
}
