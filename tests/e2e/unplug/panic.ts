// SPDX-License-Identifier: Apache-2.0
// A guest that panics with a NIC to be unplugged.
import { eventually } from "@patchbay/support";
import { CHANGE_MS, expectGone, machine } from "../machine.ts";
import { virsh } from "../virsh.ts";
import { AGAIN_MS, GuestWithNic, NIC, type Hotplug } from "./guest-with-nic.ts";

export const PANICKED = "panicked";

export interface PanicStory {
  readonly faults: readonly string[];
  /** The report after the last request to the guest. */
  readonly refused: Hotplug;
  /** State then and before the panic; number of reports of the refusal. */
  readonly whenRefused: {
    readonly belongings: unknown;
    readonly belongingsBefore: unknown;
    readonly events: number;
  };
  readonly whenGone: {
    readonly links: readonly string[];
    readonly linksAtRest: readonly string[];
    readonly events: number;
  };
}

/** Events about a guest's refusal, with message, once per occurrence. */
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

export async function panic(): Promise<PanicStory> {
  const subject = await GuestWithNic.boot(PANICKED, { network: "red", bridge: "pbt-red" });
  const { guest, linksAtRest } = subject;
  await subject.plug();
  const belongingsBefore = subject.belongings();
  // On a busy machine a booting guest was reported before in the same event, whose count rises.
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
  await eventually(isReported, { withinMs: CHANGE_MS }); // follows the status
  const whenRejected = { belongings, belongingsBefore, events: count() - earlier };
  virsh(PANICKED, "reset");
  await expectGone(PANICKED, NIC);
  const whenDeleted = { links: subject.links(), linksAtRest, events: count() - earlier };
  return { faults, refused, whenRefused: whenRejected, whenGone: whenDeleted };
}
