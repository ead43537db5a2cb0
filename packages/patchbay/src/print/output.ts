// SPDX-License-Identifier: Apache-2.0
// How is a result printed in the format that the user wants?
import type { Context } from "../command.ts";
import { oneLine } from "./safe.ts";

/** A result in all forms. */
export interface Result {
  /** For people. */
  readonly table: () => string;
  /** For programs. */
  readonly data: unknown;
  /** `kind/name` of each object. */
  readonly names: readonly string[];
}

/** Prints a result; the YAML printer is loaded only when it is wanted. */
export async function printResult(
  context: Pick<Context, "out" | "global">,
  result: Result,
): Promise<void> {
  switch (context.global.output) {
    case "table":
      context.out.write(result.table());
      return;
    case "json":
      context.out.write(`${JSON.stringify(result.data, undefined, 2)}\n`);
      return;
    case "yaml": {
      const { stringify } = await import("yaml");
      context.out.write(stringify(result.data));
      return;
    }
    case "name":
      context.out.write(result.names.map((name) => `${oneLine(name)}\n`).join(""));
  }
}
