// SPDX-License-Identifier: Apache-2.0
// What did the user give to a command? As commander has read it.

/** Arguments in their order, and values of flags by their names in camel case. */
export interface Input {
  readonly args: readonly string[];
  readonly options: Readonly<Record<string, unknown>>;
}

/** A flag's text; undefined when it was not given. */
export function textOption(input: Input, name: string): string | undefined {
  const value = input.options[name];
  return typeof value === "string" ? value : undefined;
}

/** The texts of a flag that may be repeated, in their order. */
export function listOption(input: Input, name: string): readonly string[] {
  const value = input.options[name];
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
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
