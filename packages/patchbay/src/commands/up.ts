// SPDX-License-Identifier: Apache-2.0
// patchbay up: starts everything on this machine.
import { resolve } from "node:path";
import type { Context } from "../context.ts";
import { printResult } from "../print/output.ts";
import { loadStandalone } from "../standalone-door.ts";

/** Runs the command. */
export async function run(context: Context): Promise<void> {
  const dataDir = resolve(context.global.dataDir);
  const { up } = await loadStandalone();
  await up({ dataDir });
  const kubeconfig = resolve(dataDir, "kubeconfig");
  await printResult(context, {
    table: () => `ready; use it with: export KUBECONFIG=${kubeconfig}\n`,
    data: { dataDir, kubeconfig },
    names: [dataDir],
  });
}
