// SPDX-License-Identifier: Apache-2.0
import { createFakeClock } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { createMemory, forgetVmi, type Memory } from "./memory.ts";
import { aScheduledVmi } from "./testing/scene.ts";

const FIRST = "uid-1";
const OTHER = "uid-2";

function stepOf(scope: string): { scope: string; name: string; inputs: string } {
  return { scope, name: "attachDevice one", inputs: "" };
}

function vmiOf(uid: string): ReturnType<typeof aScheduledVmi> {
  const vmi = aScheduledVmi([]);
  return { ...vmi, metadata: { ...vmi.metadata, uid } };
}

/** Creates all state that can exist for a VMI. */
function live(uid: string, memory: Memory): void {
  const summary = { reason: "AttachFailed", message: "no", attempts: 1 } as const;
  memory.stepBackoff.fail(stepOf(uid), { code: "LIBVIRT_REFUSED", summary });
  while (memory.passBudget.take(vmiOf(uid)));
  while (memory.writeBudget.take(vmiOf(uid)));
  while (memory.wiringBudget.take(vmiOf(uid), "one"));
  while (memory.diskRetryBudget.take(vmiOf(uid)));
  memory.failedPasses.set(uid, 2);
  memory.unplugRequests.record(uid, "one", 0);
  memory.deviceTaps.set(uid, new Map([["one", 4]]));
  const mac = "02:00:00:00:00:01";
  const links = [{ name: "eth0", mac, addresses: [] }];
  memory.taps.set(uid, new Map([["one", "tap1"]]));
  memory.pauseRequests.set(uid, true);
  memory.guestAgents.recordAnswer(vmiOf(uid), { links, macs: [mac] });
}

/** The kinds of state that exist. */
function remembered(uid: string, memory: Memory): Readonly<Record<string, boolean>> {
  return {
    step: memory.stepBackoff.findDelay(stepOf(uid)) !== undefined,
    passes: !memory.passBudget.take(vmiOf(uid)),
    writes: !memory.writeBudget.take(vmiOf(uid)),
    wirings: !memory.wiringBudget.take(vmiOf(uid), "one"),
    diskRetries: !memory.diskRetryBudget.take(vmiOf(uid)),
    failures: memory.failedPasses.has(uid),
    tap: memory.deviceTaps.has(uid),
    request: memory.unplugRequests.find(uid, "one") !== undefined,
    taps: memory.taps.has(uid),
    pause: memory.pauseRequests.has(uid),
    name: memory.guestAgents.getView(vmiOf(uid)).nics.size > 0,
  };
}

test("forgets all state of a VMI, and nothing of another", () => {
  const memory = createMemory(createFakeClock());
  live(FIRST, memory);
  live(OTHER, memory);
  forgetVmi(FIRST, memory);
  const all = (is: boolean): Readonly<Record<string, boolean>> => ({
    step: is,
    passes: is,
    writes: is,
    diskRetries: is,
    failures: is,
    request: is,
    name: is,
    tap: is,
    taps: is,
    pause: is,
    wirings: is,
  });
  expect(remembered(FIRST, memory)).toEqual(all(false));
  expect(remembered(OTHER, memory)).toEqual(all(true));
});
