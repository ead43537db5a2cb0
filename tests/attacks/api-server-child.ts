// SPDX-License-Identifier: Apache-2.0
// The process of an API server under attack. Argument: bounds other than its own, as JSON.
import { startApiServer } from "@patchbay/apiserver";
import type { ApiServerOptions } from "../../packages/standalone/apiserver/src/server.ts";
import { serverOptions } from "../contract/apiserver/harness.ts";

/** How often it is looked for how long others waited, milliseconds. */
const LOOK_MS = 2;

// The test wrote it.
const limits = JSON.parse(process.argv[2] ?? "{}") as NonNullable<ApiServerOptions["limits"]>;
const { options, authority, admin } = await serverOptions({ storePath: ":memory:", limits });
const server = await startApiServer(options);

// Processor time, not time: other processes of the machine do not count.
let before = process.threadCpuUsage();
let longestMs = 0;
setInterval(() => {
  const now = process.threadCpuUsage();
  const usedMs = (now.user + now.system - before.user - before.system) / 1000;
  before = now;
  longestMs = Math.max(longestMs, usedMs);
}, LOOK_MS);
process.on("message", () => {
  process.send?.(longestMs);
  longestMs = 0;
});
process.send?.({
  port: server.port,
  ca: authority.certPem,
  cert: admin.certPem,
  key: admin.keyPem,
});
