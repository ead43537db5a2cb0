// SPDX-License-Identifier: Apache-2.0
// Lets go of a guest's MACs where it has left: two macvlans of one parent cannot have the same, and no switch is to hear it here.
import type { VirtualMachineInstance } from "@patchbay/api";
import { leftWirings, messageOf } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { Deps } from "../deps.ts";
import { observeNodeVm } from "../reconcilers/vmi/observe.ts";
import type { Place } from "../reconcilers/vmi/step-context.ts";

/** May be repeated. The pod may be about to end, and its links with it: that is as well. */
export async function releaseGuest(
  vmi: VirtualMachineInstance,
  place: Place,
  deps: Deps,
): Promise<void> {
  const { netns } = place.session.launcher;
  try {
    for (const wiring of leftWirings(await observeNodeVm(vmi, place, deps))) {
      await deps.podNetwork.wireTap(netns, wiring);
    }
  } catch (error) {
    const fields = { vmi: printKey(keyOf(vmi)), reason: messageOf(error) };
    deps.log.warn("the pod that a guest has left still has its MACs", fields);
  }
}
