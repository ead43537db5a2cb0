// SPDX-License-Identifier: Apache-2.0
// Prints a result in the chosen output format.
import type { Context } from "../command.ts";
import { escapeLine } from "./safe.ts";

export interface Result {
  readonly table: () => string;
  readonly data: unknown;
  /** Names of the objects, as `kind/name`. */
  readonly names: readonly string[];
}

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
      context.out.write(result.names.map((name) => `${escapeLine(name)}\n`).join(""));
  }
}
