// SPDX-License-Identifier: Apache-2.0
// patchbay apiserver: runs the API server alone, in the foreground.
import { resolve } from "node:path";
import { numberOption, type Context, type Input } from "../../context.ts";

/** Port of the API server. Source: Kubernetes. */
const DEFAULT_PORT = 6443;

/** Runs the command. */
export async function run(context: Context, input: Input): Promise<void> {
  const { runApiServer } = await import("@patchbay/standalone");
  await runApiServer({
    dataDir: resolve(context.global.dataDir),
    port: numberOption(input, "port", DEFAULT_PORT),
    signal: context.signal,
  });
}
