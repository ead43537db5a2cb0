// SPDX-License-Identifier: Apache-2.0
// What is a command, and what is it given?
import type { Input } from "./input.ts";

/** Where a shell finds what can stand at a place. */
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

/** A flag of a command. */
export interface FlagSpec {
  /** As commander takes it, for example `--name <name>`. */
  readonly flags: string;
  readonly description: string;
  readonly required?: boolean;
  /** What the value is; text when absent. */
  readonly kind?: "duration" | "port" | "count" | "group" | "quantity";
  /** The only values that it takes. */
  readonly choices?: readonly string[];
  /** Flags, by their names in camel case, that mean nothing beside it. */
  readonly conflicts?: readonly string[];
  /** Each of its values counts. */
  readonly isRepeatable?: boolean;
  /** Printed in the help; text as the user would type it. */
  readonly fallback?: string;
  /** What completion offers for its value; nothing when absent. */
  readonly values?: Values;
}

/** What people see of a command. */
export interface CommandSpec {
  /** One word, or a group and a word, as typed. */
  readonly name: string;
  readonly aliases?: readonly string[];
  /** As commander takes them, for example `<vm>`. */
  readonly args: readonly string[];
  /** What completion offers for each of them. */
  readonly values?: readonly Values[];
  /** Not for people. */
  readonly isHidden?: boolean;
  readonly summary: string;
  readonly flags: readonly FlagSpec[];
}

/** A command. `run` loads what is heavy itself, so that the help and other commands do not wait for it. */
export interface Command extends CommandSpec {
  readonly run: (context: Context, input: Input) => Promise<void>;
}

/** Everything that can be typed. */
export interface CommandLine {
  readonly commands: readonly CommandSpec[];
  /** Names of groups, with what they are for. */
  readonly groups: Readonly<Record<string, string>>;
  /** Flags of all commands. */
  readonly flags: readonly FlagSpec[];
}

/** How results are printed. */
export type OutputFormat = "table" | "json" | "yaml" | "name";

/** All formats. */
export const OUTPUT_FORMATS: readonly OutputFormat[] = ["table", "json", "yaml", "name"];

/** A stream to people or programs. */
export interface Output {
  write(text: string): void;
}

/** What the process knows from outside. */
export interface Environment {
  /** KUBECONFIG. */
  readonly kubeconfig?: string;
  /** HOME. */
  readonly home?: string;
  /** The words that start this program; absent: its name. */
  readonly program?: readonly string[];
}

/** Values of the flags of all commands. */
export interface GlobalOptions {
  readonly kubeconfig?: string;
  readonly namespace?: string;
  readonly output: OutputFormat;
  readonly dataDir: string;
}

/** What a command works with. */
export interface Context {
  readonly out: Output;
  readonly err: Output;
  readonly global: GlobalOptions;
  readonly environment: Environment;
  readonly version: string;
  /** For the commands that tell shells about the others. */
  readonly commandLine: CommandLine;
  /** Aborted at Ctrl-C. */
  readonly signal: AbortSignal;
}
