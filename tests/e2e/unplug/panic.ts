// SPDX-License-Identifier: Apache-2.0
// The story of a guest that panics while it has a NIC, which is to go.
import { eventually } from "@patchbay/support";
import { CHANGE_MS, expectGone, machine } from "../machine.ts";
import { virsh } from "../virsh.ts";
import { AGAIN_MS, GuestWithNic, NIC, type Hotplug } from "./guest-with-nic.ts";

/** Name of its VM. */
export const PANICKED = "panicked";

export interface PanicStory {
  readonly faults: readonly string[];
  /** What is reported when the guest has been asked for the last time. */
  readonly refused: Hotplug;
  /** What there was then, and before the guest panicked; how often the refusal was told. */
  readonly whenRefused: {
    readonly belongings: unknown;
    readonly belongingsBefore: unknown;
    readonly events: number;
  };
  /** After the guest was reset. */
  readonly whenGone: {
    readonly links: readonly string[];
    readonly linksAtRest: readonly string[];
    readonly events: number;
  };
}

/** Events that a guest refused, with their message, as often as each came. */
function refusals(): readonly { readonly message: string; readonly count: number }[] {
  return machine
    .events()
    .filter(
      ({ reason, involvedObject }) => reason === "GuestRefused" && involvedObject.name === PANICKED,
    )
    .map(({ message, count = 1 }) => ({ message, count }));
}

function count(): number {
  return refusals().reduce((sum, refusal) => sum + refusal.count, 0);
}

/** Boots, plugs, panics, unplugs, resets. */
export async function panic(): Promise<PanicStory> {
  const subject = await GuestWithNic.boot(PANICKED, { network: "red", bridge: "pbt-red" });
  const { guest, linksAtRest } = subject;
  await subject.plug();
  const belongingsBefore = subject.belongings();
  // On a busy machine a guest that boots has been told of before, in the same event: repeats are counted.
  const earlier = count();
  const since = guest.position();
  await guest.run("panic");
  await guest.waitForLine(/Kernel panic/, { timeoutMs: CHANGE_MS, since });
  subject.unplug();
  const refused = await subject.expectWait(({ reason }) => reason === "GuestRefused", 3 * AGAIN_MS);
  const faults = subject.faults();
  const belongings = subject.belongings();
  const message = `interface ${NIC}: ${refused.message ?? ""}`;
  const isReported = (): boolean => refusals().some((refusal) => refusal.message === message);
  await eventually(isReported, { withinMs: CHANGE_MS }); // a little after the status
  const whenRejected = { belongings, belongingsBefore, events: count() - earlier };
  virsh(PANICKED, "reset");
  await expectGone(PANICKED, NIC);
  const whenDeleted = { links: subject.links(), linksAtRest, events: count() - earlier };
  return { faults, refused, whenRefused: whenRejected, whenGone: whenDeleted };
}
