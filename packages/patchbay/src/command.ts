// SPDX-License-Identifier: Apache-2.0
// What every command is given.

/** How results are printed. */
export type OutputFormat = "table" | "json" | "yaml" | "name";

/** All formats. */
export const OUTPUT_FORMATS: readonly OutputFormat[] = ["table", "json", "yaml", "name"];

/** A stream to people or programs. */
export interface Output {
  write(text: string): void;
}

/** Variables of the environment. */
export interface Environment {
  /** KUBECONFIG. */
  readonly kubeconfig?: string;
  /** HOME. */
  readonly home?: string;
}

/** Flags of all commands. */
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
  /** Aborted at Ctrl-C. */
  readonly signal: AbortSignal;
}

/** What the user gave to one command. */
export interface Input {
  readonly args: readonly string[];
  readonly options: Readonly<Record<string, unknown>>;
}

/** The module of a command. */
export interface CommandModule {
  readonly run: (context: Context, input: Input) => Promise<void>;
}

/** A flag's text; undefined when it was not given. */
export function textOption(input: Input, name: string): string | undefined {
  const value = input.options[name];
  return typeof value === "string" ? value : undefined;
}

/** A flag's number, or `fallback`. */
export function numberOption(input: Input, name: string, fallback: number): number {
  const value = input.options[name];
  return typeof value === "number" ? value : fallback;
}

/** Whether a flag was given. */
export function hasFlag(input: Input, name: string): boolean {
  return input.options[name] === true;
}

/** The argument at `index`; commander has refused a call without it. */
export function argumentAt(input: Input, index: number): string {
  return input.args[index] ?? "";
}
