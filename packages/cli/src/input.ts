// SPDX-License-Identifier: Apache-2.0
// Arguments and flags of a command, parsed by commander.

export interface Input {
  readonly args: readonly string[];
  readonly options: Readonly<Record<string, unknown>>;
}

export function textOption(input: Input, name: string): string | undefined {
  const value = input.options[name];
  return typeof value === "string" ? value : undefined;
}

/** Returns the values of a repeatable flag, in the order of the command line. */
export function listOption(input: Input, name: string): readonly string[] {
  const value = input.options[name];
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}

export function numberOption(input: Input, name: string, fallback: number): number {
  const value = input.options[name];
  return typeof value === "number" ? value : fallback;
}

export function hasFlag(input: Input, name: string): boolean {
  return input.options[name] === true;
}

/** Returns the argument at `index`; "" for an omitted optional argument. commander has rejected calls without required arguments. */
export function argumentAt(input: Input, index: number): string {
  return input.args[index] ?? "";
}
