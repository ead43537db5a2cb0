// SPDX-License-Identifier: Apache-2.0
// Where a guest's MACs are heard: networks are told that it is still here, and a pod that it has left lets go of them. What fails
// holds nothing up: a guest is heard again as soon as it sends something itself, and a pod that it has left ends soon.
import type { VirtualMachineInstance } from "@patchbay/api";
import { announcedNics, leftWirings, messageOf, type NodeVmFacts } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { PodNetwork } from "@patchbay/core/ports";
import type { Deps } from "../deps.ts";
import { observeNodeVm } from "../reconcilers/vmi/observe.ts";
import type { Place } from "../reconcilers/vmi/step-context.ts";

/** The launcher's namespace. */
type Netns = Parameters<PodNetwork["announce"]>[0];

async function attempt(
  vmi: VirtualMachineInstance,
  { place, deps }: { readonly place: Place; readonly deps: Deps },
  act: (facts: NodeVmFacts, netns: Netns) => Promise<void>,
): Promise<boolean> {
  try {
    await act(await observeNodeVm(vmi, place, deps), place.session.launcher.netns);
    return true;
  } catch (error) {
    const fields = { vmi: printKey(keyOf(vmi)), reason: messageOf(error) };
    deps.log.warn("the macs of a guest that moves may be heard in another place", fields);
    return false;
  }
}

/** Networks may have heard it at the pod to which it was to go. May be repeated. */
export async function announceGuest(
  vmi: VirtualMachineInstance,
  place: Place,
  deps: Deps,
): Promise<void> {
  await attempt(vmi, { place, deps }, async (facts, netns) => {
    for (const nic of announcedNics(facts)) await deps.podNetwork.announce(netns, nic);
  });
}

/** Two macvlans of one parent cannot have the same MAC, and no switch is to hear the guest here. May be repeated; whether it is done. */
export function releaseGuest(
  vmi: VirtualMachineInstance,
  place: Place,
  deps: Deps,
): Promise<boolean> {
  return attempt(vmi, { place, deps }, async (facts, netns) => {
    for (const wiring of leftWirings(facts, place.pod.uid))
      await deps.podNetwork.wireTap(netns, wiring);
  });
}
