// SPDX-License-Identifier: Apache-2.0
// Types of commands and of their context.
import type { Input } from "./input.ts";

/** Source of values for shell completion. */
export type Values =
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
  /** Type of the value; a text if unset. */
  readonly kind?: "duration" | "port" | "count" | "group" | "quantity";
  readonly choices?: readonly string[];
  /** Flags, by their names in camel case, that must not be used together with this one. */
  readonly conflicts?: readonly string[];
  readonly isRepeatable?: boolean;
  /** Default value, as a user would type it and as the help shows it. */
  readonly fallback?: string;
  /** Source of values for completion; unset for none. */
  readonly values?: Values;
}

export interface CommandSpec {
  /** Name as typed: one word, or a group and a word. */
  readonly name: string;
  readonly aliases?: readonly string[];
  /** Arguments in commander's notation, for example `<vm>`. */
  readonly args: readonly string[];
  /** Source of values for completion of each argument. */
  readonly values?: readonly Values[];
  readonly isHidden?: boolean;
  readonly summary: string;
  readonly flags: readonly FlagSpec[];
}

/** A command. `run` imports large modules itself, so that the help and other commands do not load them. */
export interface Command extends CommandSpec {
  readonly run: (context: Context, input: Input) => Promise<void>;
}

export interface CommandLine {
  readonly commands: readonly CommandSpec[];
  /** Descriptions of groups by name. */
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
  /** Command and arguments that start this program; unset to use its name. */
  readonly program?: readonly string[];
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
  /** Signal that is aborted at Ctrl-C. */
  readonly signal: AbortSignal;
}
