// SPDX-License-Identifier: Apache-2.0
// patchbay apiserver: runs the API server alone, in the foreground.
import { resolve } from "node:path";
import type { Command, Context } from "../../command.ts";
import { numberOption, type Input } from "../../input.ts";

/** Source: Kubernetes' own. */
const DEFAULT_PORT = 6443;

async function run(context: Context, input: Input): Promise<void> {
  const { runApiServer } = await import("@patchbay/standalone");
  await runApiServer({
    dataDir: resolve(context.global.dataDir),
    port: numberOption(input, "port", DEFAULT_PORT),
    signal: context.signal,
  });
}

/** Ends at Ctrl-C. */
export const apiserver: Command = {
  name: "apiserver",
  args: [],
  summary: "Run only the API server, in the foreground, over HTTPS on the loopback address",
  flags: [
    {
      flags: "--port <port>",
      description: "TCP port; 0 takes a free one",
      kind: "port",
      fallback: String(DEFAULT_PORT),
    },
  ],
  run,
};
