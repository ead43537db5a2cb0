// SPDX-License-Identifier: Apache-2.0
// What stands between pod and guest once a guest that was awaited is here, and once one that was here is elsewhere?
import type { PodWiring } from "../bindings/pod-wiring.ts";
import { isByHook } from "../iface/links/wiring.ts";
import { isInPod, wiringPlanOf, type NodeVmFacts } from "../plan/node/node-vm.ts";

function wiringsIn(facts: NodeVmFacts): readonly PodWiring[] {
  return facts.ifaces
    .filter((iface) => isInPod(iface) && iface.links.podInterface && !isByHook(iface))
    .flatMap((iface) => wiringPlanOf(facts, iface) ?? []);
}

/** The same once the guest is here. */
function arrivedOf(wiring: PodWiring): PodWiring {
  const arrived = { ...wiring };
  // A copy of our own, of a field that may be absent.
  delete (arrived as { awaitedIn?: string }).awaitedIn;
  return arrived;
}

/** Each to be made as soon as the guest runs; may be repeated. */
export function arrivedWirings(facts: NodeVmFacts): readonly PodWiring[] {
  return wiringsIn(facts).map(arrivedOf);
}

/**
 * Each to be made once the guest has left the pod with that uid: nothing of it is taken for the guest, nor keeps its MAC from the other one.
 * May be repeated.
 */
export function leftWirings(facts: NodeVmFacts, podUid: string): readonly PodWiring[] {
  return wiringsIn(facts).map((wiring) => ({ ...wiring, awaitedIn: podUid }));
}
