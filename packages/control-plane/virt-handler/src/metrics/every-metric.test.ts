// SPDX-License-Identifier: Apache-2.0
// Each documented metric of virt-handler changes during a late plug, an unplug and traffic.
import type { VirtualMachineInstance } from "@patchbay/api";
import { eventually, findUndocumented, metricNamesOf, samplesIn } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { NETNS } from "../testing/bench.ts";
import { LoopNode } from "../testing/loop-node.ts";
import { aScheduledVmi, attachment, linkNamesOf, putNicAt, without } from "../testing/scene.ts";

const SOON = { withinMs: 5_000 };
/** Counted where the program's client is made: packages/common/daemon. */
const BY_ITS_CLIENT = "patchbay_api_requests_total";
/** Of outgoing migrations: packages/control-plane/virt-handler/src/migration/outgoing.test.ts. */
const OF_MOVES = /^kubevirt_vmi_migration_/;
const NAMES = metricNamesOf("virt-handler").filter(
  (name) => name !== BY_ITS_CLIENT && !OF_MOVES.test(name),
);

let node: LoopNode;
const seen: string[] = [];

async function look(): Promise<void> {
  await node.clock.advance(1_000);
  seen.push(await node.metrics.print());
}

/** A change by another component. */
async function edit(
  change: (vmi: VirtualMachineInstance) => VirtualMachineInstance,
): Promise<void> {
  if (node.vmi === undefined) throw new Error("the VMI is gone");
  await node.put(change(node.vmi));
}

function flow(bytes: number): void {
  const counts = { bytes, packets: bytes + 1, errors: bytes + 2, dropped: bytes + 3 };
  const { tapName } = linkNamesOf("one");
  node.linkCounters.put(NETNS, { name: tapName, received: counts, transmitted: counts });
}

function statusOf(name: string): unknown {
  return node.vmi?.status?.interfaces?.find((iface) => iface.name === name)?.hotplug?.phase;
}

beforeEach(async () => {
  node = new LoopNode();
  seen.length = 0;
  flow(1);
  await node.put(aScheduledVmi(["one"]));
  node.start();
  await eventually(() => node.isRunning && statusOf("one") === "Ready", SOON);
  await look();
  flow(100);
  await edit((vmi) => ({ ...vmi, spec: aScheduledVmi(["one", "two"]).spec }));
  await look();
  // Its NIC does not exist yet, so a reason is reported.
  await edit((vmi) => ({
    ...vmi,
    status: { ...vmi.status, attachments: [attachment("one"), attachment("two")] },
  }));
  await eventually(() => statusOf("two") !== undefined, SOON);
  await look();
  putNicAt(node.podNetwork, "two");
  await edit((vmi) => vmi);
  await eventually(async () => {
    await node.clock.advance(60_000);
    return statusOf("two") === "Ready";
  }, SOON);
  await look();
  await edit((vmi) => without(vmi, "two"));
  await eventually(() => statusOf("two") !== "Ready", SOON);
  await look();
});
afterEach(() => node.stop());

test.each(NAMES)("%s changes", (name) => {
  const values = seen.map((text) => samplesIn(text, name).join("\n"));
  expect(values.at(-1)).not.toBe("");
  expect(new Set(values).size).toBeGreaterThan(1);
});

test("documents all metrics that it exports", () => {
  expect(seen.flatMap(findUndocumented)).toEqual([]);
});

test("measures a plug while the guest runs, but not the boot", async () => {
  const [count] = samplesIn(await node.metrics.print(), "patchbay_plug_seconds").filter((line) =>
    line.includes("_count"),
  );
  expect(count).toBe('patchbay_plug_seconds_count{type="Plug"} 1');
});
