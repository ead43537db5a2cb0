// SPDX-License-Identifier: Apache-2.0
// Probe output that could keep node-runtime busy.
import { readFileSync } from "node:fs";
import { containerConfigFor, sandboxConfigFor } from "@patchbay/cri/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runProbe } from "../../../packages/standalone/node-runtime/src/probes/run-probe.ts";
import {
  startContainerdRuntime,
  type ContainerdRuntimeBench,
} from "../../contract/cri/containerd-runtime.ts";

/** Bytes that this process has read so far, including from sockets. Source: Linux, proc(5), `rchar` of /proc/PID/io. */
function bytesRead(): number {
  return Number(/^rchar: (\d+)$/m.exec(readFileSync("/proc/self/io", "utf8"))?.[1]);
}

/** Time for containerd to start. */
const STARTS_MS = 120_000;
const PROBES = 8;
/** Limit of bytes read per probe: far below the 15 MiB that the probe writes. 94 kB were measured. */
const READ_BYTES_MAX = 1024 * 1024;

let bench: ContainerdRuntimeBench;
let id = "";

beforeAll(async () => {
  bench = await startContainerdRuntime();
  const config = sandboxConfigFor(bench, "loud");
  const sandbox = await bench.runtime.runSandbox(config);
  id = await bench.runtime.createContainer(
    sandbox,
    containerConfigFor(bench, bench.runner),
    config,
  );
  await bench.runtime.startContainer(id);
}, STARTS_MS);
afterAll(() => bench.close(), STARTS_MS);

test("attack 130: probes that print 15 MiB fail and use few resources of the node", async () => {
  const { runtime, chatterer, speaker } = bench;
  const request = { containerId: id, timeoutSeconds: 60 };
  // The first probe opens the connection.
  await runProbe(runtime, { kind: "exec", command: speaker }, request);
  const before = bytesRead();
  for (let count = 0; count < PROBES; count += 1) {
    expect(await runProbe(runtime, { kind: "exec", command: chatterer }, request)).toEqual({
      outcome: "failure",
      message: "its output exceeds the limit",
    });
  }
  expect((bytesRead() - before) / PROBES).toBeLessThan(READ_BYTES_MAX);
});
