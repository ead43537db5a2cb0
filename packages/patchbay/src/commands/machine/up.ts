// SPDX-License-Identifier: Apache-2.0
// patchbay up: starts everything on this machine.
import { resolve } from "node:path";
import { hasFlag, textOption, type Context, type Input } from "../../context.ts";
import { printResult } from "../../print/output.ts";

/** Runs the command. */
export async function run(context: Context, input: Input): Promise<void> {
  const dataDir = resolve(context.global.dataDir);
  const { up } = await import("@patchbay/standalone");
  const apiPort = input.options["apiPort"];
  const nodeName = textOption(input, "nodeName");
  const podSubnet = textOption(input, "podSubnet");
  const bridge = textOption(input, "bridge");
  await up({
    dataDir,
    installService: hasFlag(input, "installService"),
    ...(typeof apiPort === "number" && { apiPort }),
    ...(nodeName !== undefined && { nodeName }),
    ...(podSubnet !== undefined && { podSubnet }),
    ...(bridge !== undefined && { bridge }),
  });
  const kubeconfig = resolve(dataDir, "kubeconfig");
  await printResult(context, {
    table: () => `ready; use it with: export KUBECONFIG=${kubeconfig}\n`,
    data: { dataDir, kubeconfig },
    names: [dataDir],
  });
}
