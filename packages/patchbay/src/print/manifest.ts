// SPDX-License-Identifier: Apache-2.0
// How are objects printed for kubectl to create?
import type { KubeObject } from "@patchbay/api";
import type { Context } from "../command.ts";

/** One document for each as YAML, a list as JSON. */
export async function printManifest(
  { out, global }: Pick<Context, "out" | "global">,
  objects: readonly KubeObject[],
): Promise<void> {
  if (global.output === "json") {
    const list = { apiVersion: "v1", kind: "List", items: objects };
    out.write(`${JSON.stringify(list, undefined, 2)}\n`);
    return;
  }
  const { stringify } = await import("yaml");
  // People read and edit it: without aliases, and user data as they are written, also where a line is long.
  const options = { aliasDuplicateObjects: false, blockQuote: "literal", lineWidth: 0 } as const;
  out.write(objects.map((object) => stringify(object, options)).join("---\n"));
}
