// SPDX-License-Identifier: Apache-2.0
// A mounted ConfigMap that its tenant changes in a loop.
import { readFileSync } from "node:fs";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RuntimeMachine, shellContainer, shellPod } from "../../contract/node-runtime/machine.ts";
import { processorMs } from "../../perf/control-plane/service.ts";
import { IMAGES_MS } from "./pod-machine.ts";

const PODS = 4;
const TEXT_BYTES = 900_000;
const LOOP_MS = 15_000;
/** Part of a core. 0.14 was measured, and up to 0.8 without a limit of updates. */
const CORE_SHARE_MAX = 0.4;
const CONFIG_MAPS = "/api/v1/namespaces/default/configmaps";

let machine: RuntimeMachine;

beforeAll(async () => {
  machine = await RuntimeMachine.start();
}, IMAGES_MS);
afterAll(() => machine.close());

test("attack 162: a mounted ConfigMap that changes in a loop costs node-runtime less than half a core", async () => {
  const text = "x".repeat(TEXT_BYTES);
  await machine.api.post(CONFIG_MAPS, { metadata: { name: "c" }, data: { text, key: "0" } });
  const names = Array.from({ length: PODS }, (_unused, index) => `reader-${String(index)}`);
  const container = shellContainer("sleep 600");
  for (const name of names) {
    const volumeMounts = [{ name: "c", mountPath: "/c" }];
    const volumes = [{ name: "c", configMap: { name: "c" } }];
    const containers = [{ ...container, volumeMounts }];
    await machine.create(shellPod(name, "", { containers, volumes }));
  }
  const pods = await Promise.all(names.map((name) => machine.inPhase(name, "Running")));
  const startMs = performance.now();
  const startProcessorMs = processorMs(machine.runtimePid);
  let changeCount = 0;
  while (performance.now() - startMs < LOOP_MS) {
    changeCount += 1;
    await machine.api.patch(`${CONFIG_MAPS}/c`, { data: { key: String(changeCount) } });
  }
  const share =
    (processorMs(machine.runtimePid) - startProcessorMs) / (performance.now() - startMs);
  const seconds = (performance.now() - startMs) / 1000;
  const log = readFileSync(machine.path("runtime.log"), "utf8");
  const updateCount = log.split("volume updated").length - 1;
  process.stderr.write(
    `${String(changeCount)} changes cost ${String(updateCount)} updates and ${share.toFixed(2)} of a core\n`,
  );
  expect(changeCount).toBeGreaterThan(3 * seconds);
  expect(updateCount).toBeGreaterThan(0);
  expect(updateCount).toBeLessThanOrEqual(PODS * (seconds + 1));
  expect(share).toBeLessThan(CORE_SHARE_MAX);
  for (const { metadata } of pods) {
    const file = machine.path("pods", metadata.uid ?? "", "volumes/kubernetes.io~configmap/c/key");
    await eventually(() => readFileSync(file, "utf8") === String(changeCount) || undefined, {
      withinMs: 10_000,
    });
  }
});
