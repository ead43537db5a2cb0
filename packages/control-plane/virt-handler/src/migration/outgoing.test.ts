// SPDX-License-Identifier: Apache-2.0
// Progress of outgoing migrations in VMI and metrics, and the end of stalled ones.
import { metricNamesOf, samplesIn } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { TwoNodes } from "../testing/two-nodes.ts";

const MIB = 1024 * 1024;
const NAMES = metricNamesOf("virt-handler").filter((name) =>
  name.startsWith("kubevirt_vmi_migration_"),
);

let nodes: TwoNodes;

/** Observes again after this amount was transferred. */
async function goOn(mib: number): Promise<void> {
  nodes.daemon("node1").moveStats = {
    totalBytes: 128 * MIB + mib,
    processedBytes: mib * MIB,
    remainingBytes: (128 - mib) * MIB,
    memoryBytesPerSecond: 10 * MIB + mib,
    dirtyPagesPerSecond: mib,
    pageBytes: 4096,
  };
  await nodes.clock.advance(2_500);
  await nodes.until(async () => {
    const { progress } = await nodes.migrationState();
    return progress?.dataProcessedBytes === mib * MIB;
  });
}

beforeEach(async () => {
  nodes = new TwoNodes();
  await nodes.start("node1");
  await nodes.start("node2");
  await nodes.until(async () => (await nodes.vmi()).status?.phase === "Running");
  nodes.daemon("node1").holdsMoves = true;
  await nodes.open({ migrationConfiguration: { progressTimeout: 20, maxDowntimeMs: 300 } });
  await nodes.until(async () => (await nodes.migrationState()).startTimestamp !== undefined);
});
afterEach(() => nodes.stopAll());

test.each(NAMES)("%s changes, and is removed with the migration", async (name) => {
  expect(samplesIn(await nodes.metrics.print(), name)).toEqual([]);
  await goOn(10);
  const before = samplesIn(await nodes.metrics.print(), name);
  await goOn(20);
  const after = samplesIn(await nodes.metrics.print(), name);
  expect([before.length, after.length]).toEqual([1, 1]);
  expect(after).not.toEqual(before);
  nodes.daemon("node1").endMove("default_vm1", "over");
  await nodes.until(() => Promise.resolve(nodes.relays.openCount === 0));
  expect(samplesIn(await nodes.metrics.print(), name)).toEqual([]);
});

test("is in the VMI", async () => {
  await goOn(30);
  expect((await nodes.migrationState()).progress).toEqual({
    dataTotalBytes: 128 * MIB + 30,
    dataProcessedBytes: 30 * MIB,
    dataRemainingBytes: 98 * MIB,
    memoryBytesPerSecond: 10 * MIB + 30,
  });
});

test("aborts a migration without progress, and the guest stays", async () => {
  await goOn(10);
  await nodes.until(async () => (await nodes.migrationState()).failed === true);
  expect((await nodes.migrationState()).failureReason).toBe(
    "no data was transferred for 20 s (progressTimeout)",
  );
  expect(await nodes.stateOn("node1")).toBe("running");
});

/** The downtimes that QEMU was allowed, in order. */
function limits(): readonly string[] {
  return nodes
    .daemon("node1")
    .calls.filter((call) => call.startsWith("setMaxDowntime"))
    .map((call) => call.replace("setMaxDowntime default_vm1 ", ""));
}

test("completes a guest that has exceeded its time and may be disrupted", async () => {
  const { migrationConfiguration } = await nodes.migrationState();
  const disrupted = { completionTimeoutPerGiB: 30, allowWorkloadDisruption: true };
  await nodes.writeMigration({
    migrationConfiguration: { ...migrationConfiguration, ...disrupted },
  });
  await goOn(10);
  expect([(await nodes.migrationState()).mode, limits()]).toEqual(["PreCopy", ["33"]]);
  await nodes.clock.advance(15_000);
  await goOn(20);
  await nodes.clock.advance(15_000);
  await nodes.until(async () => (await nodes.migrationState()).mode === "Paused");
  nodes.daemon("node1").iterate("default_vm1", 2);
  nodes.daemon("node1").endMove("default_vm1", "over");
  await nodes.until(async () => (await nodes.stateOn("node2")) === "running");
  expect([...new Set(limits())]).toEqual(["33", "2000000"]);
});

test("raises the allowed downtime with each iteration up to the configured maximum", async () => {
  const daemon = nodes.daemon("node1");
  for (let iteration = 1; iteration <= 6; iteration += 1) daemon.iterate("default_vm1", iteration);
  await nodes.until(() => Promise.resolve(limits().at(-1) === "300"));
  expect([...new Set(limits())]).toEqual(["33", "75", "150", "300"]);
});

test("allows an emulated guest the maximum downtime at once", async () => {
  const configuration = { developerConfiguration: { useEmulation: true } };
  const of = { apiVersion: "kubevirt.io/v1", kind: "KubeVirt", metadata: { name: "kubevirt" } };
  nodes.kubevirts.put({ ...of, spec: { configuration } });
  nodes.daemon("node1").iterate("default_vm1", 2);
  await nodes.until(() => Promise.resolve(limits().at(-1) === "300"));
  expect(limits()).toEqual(["33", "300"]);
});
