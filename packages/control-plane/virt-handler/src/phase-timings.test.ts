// SPDX-License-Identifier: Apache-2.0
// Reported durations of plugs and unplugs whose start was observed.
import type { IfacePhase, IfaceStatus, VirtualMachineInstance, VmiPhase } from "@patchbay/api";
import type { IfaceStage } from "@patchbay/core/nics";
import { createFakeClock } from "@patchbay/os/testing";
import { aVmi } from "@patchbay/support";
import { beforeEach, expect, test } from "vitest";
import { createPhaseTimings, type PhaseTimings } from "./memory.ts";

let clock: ReturnType<typeof createFakeClock>;
let stories: PhaseTimings;

beforeEach(() => {
  clock = createFakeClock();
  stories = createPhaseTimings(clock);
});

/** The VMI with this last reported phase of its NIC. */
function vmiWith(told?: IfacePhase, phase: VmiPhase = "Running"): VirtualMachineInstance {
  const since = "2026-01-01T00:00:00Z";
  const interfaces: IfaceStatus[] =
    told === undefined ? [] : [{ name: "one", hotplug: { type: "Plug", phase: told, since } }];
  return aVmi({ status: { phase, interfaces } });
}

async function see(vmi: VirtualMachineInstance, ...stages: readonly IfaceStage[]): Promise<void> {
  stories.observe(vmi, stages);
  await clock.advance(1000);
}

function stage(type: IfaceStage["type"], phase: IfacePhase): IfaceStage {
  return { name: "one", type, phase, podInterfaceName: "net1" };
}

const ATTACHING = stage("Plug", "PodAttaching");
const READY = stage("Plug", "Ready");
const DETACHING = stage("Unplug", "Detaching");

test("measures a plug from the pass that first observed it", async () => {
  await see(vmiWith(), ATTACHING);
  await see(vmiWith("PodAttaching"), stage("Plug", "Wiring"));
  await see(vmiWith("PodAttaching"), READY);
  expect(stories.describe(vmiWith("PodAttaching"), "one")).toBe(
    "after 2.00 s (pod 1.00 s, device 1.00 s)",
  );
});

test("measures an unplug until nothing is left", async () => {
  await see(vmiWith("Ready"), READY);
  await see(vmiWith("Ready"), DETACHING);
  await see(vmiWith("Detaching"));
  expect(stories.describe(vmiWith("Detaching"), "one")).toBe("after 2.00 s");
  await see(vmiWith());
  expect(stories.describe(vmiWith(), "one")).toBeUndefined();
});

test("has no start for an operation that began before the process", async () => {
  await see(vmiWith("PodAttaching"), ATTACHING);
  await see(vmiWith("PodAttaching"), READY);
  expect(stories.describe(vmiWith("PodAttaching"), "one")).toBeUndefined();
  await see(vmiWith("Ready"), DETACHING);
  expect(stories.describe(vmiWith("Detaching"), "one")).toBe("after 1.00 s");
});

test("does not count a NIC that starts with its guest as a plug", async () => {
  await see(vmiWith(undefined, "Scheduled"), ATTACHING);
  await see(vmiWith("PodAttaching", "Scheduled"), READY);
  expect(stories.describe(vmiWith("PodAttaching"), "one")).toBeUndefined();
});

test("starts afresh after a VMI was forgotten", async () => {
  await see(vmiWith(), ATTACHING);
  stories.forget(vmiWith().metadata.uid ?? "");
  expect(stories.describe(vmiWith(), "one")).toBeUndefined();
});
