// SPDX-License-Identifier: Apache-2.0
// Starts net-agent and ends it on a signal.
import { messageOf } from "@patchbay/core";
import { createLogger } from "@patchbay/telemetry";
import { parseConfig } from "./config.ts";
import { runAgent } from "./wiring.ts";

const config = parseConfig(process.argv);
const log = createLogger({
  component: "net-agent",
  level: config.logLevel,
  node: config.nodeName,
});
const stop = new AbortController();
// Whoever started us may stop reading.
process.stdout.on("error", () => undefined);
for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.once(signal, () => {
    log.info("stopping", { signal });
    stop.abort(new Error(signal));
  });
}
try {
  await runAgent(config, log, {
    signal: stop.signal,
    ready: () => {
      process.stdout.write(`ready ${config.nodeName}\n`);
    },
  });
  process.exitCode = 0;
} catch (error) {
  log.error("net-agent failed", { reason: messageOf(error), err: error });
  process.exitCode = 1;
}
