// SPDX-License-Identifier: Apache-2.0
// Tells networks that a guest is here, where they may have heard it at the pod to which it was to go.
import type { VirtualMachineInstance } from "@patchbay/api";
import { announcedNics, messageOf } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { Deps } from "../deps.ts";
import { observeNodeVm } from "../reconcilers/vmi/observe.ts";
import type { Place } from "../reconcilers/vmi/step-context.ts";

/** What cannot be told holds nothing up: a guest is heard again as soon as it sends something itself. */
export async function announceGuest(
  vmi: VirtualMachineInstance,
  place: Place,
  deps: Deps,
): Promise<void> {
  const { netns } = place.session.launcher;
  try {
    for (const nic of announcedNics(await observeNodeVm(vmi, place, deps))) {
      await deps.podNetwork.announce(netns, nic);
    }
  } catch (error) {
    const fields = { vmi: printKey(keyOf(vmi)), reason: messageOf(error) };
    deps.log.warn("networks could not be told that a guest is still here", fields);
  }
}
