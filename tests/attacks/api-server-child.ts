// SPDX-License-Identifier: Apache-2.0
// Process of the API server under attack. Argument: bounds that replace its own, as JSON.
import { startApiServer } from "@patchbay/apiserver";
import type { ApiServerOptions } from "../../packages/standalone/apiserver/src/server.ts";
import { serverOptions } from "../contract/apiserver/harness.ts";

/** Interval between measurements of other clients' delay, milliseconds. */
const LOOK_MS = 2;

const limits = JSON.parse(process.argv[2] ?? "{}") as NonNullable<ApiServerOptions["limits"]>;
const { options, authority, admin } = await serverOptions({ storePath: ":memory:", limits });
const server = await startApiServer(options);

// Uses processor time, because other processes of the machine must not count.
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
