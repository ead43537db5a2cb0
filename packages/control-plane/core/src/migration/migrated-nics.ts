// SPDX-License-Identifier: Apache-2.0
// Lists a migrating guest's NICs, and their wirings and announcements on the source and the target node.
import {
  names,
  type BindingRegistry,
  type IfaceStatus,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { BindingKind } from "../nics/bindings/binding.ts";
import { resolveBinding } from "../nics/bindings/resolve-binding.ts";
import { buildSocketLinkName } from "../nics/links/socket-link.ts";
import { buildTapName } from "../nics/names.ts";
import { findByName, ifacesOf, networksOf } from "../nics/nics.ts";
import { findCondition, PAUSED } from "../status/conditions.ts";
import type { IncomingNic } from "./incoming.ts";
import { buildWiring, isMadeByHook } from "../nics/node-plan.ts";
import { isInPod, type NodeVmFacts, planWiring } from "../vm/node/node-vm.ts";
import type { AnnouncedNic } from "../interfaces/node/pod-network.ts";
import type { PodWiring } from "../nics/bindings/pod-wiring.ts";

/** Bindings for which Patchbay creates the tap. */
const OWN_TAP_BINDINGS: readonly BindingKind[] = ["bridge", "masquerade", "managedTap"];

/** Lists interfaces that have a device in the guest according to the source node. Includes interfaces that are being unplugged. */
export function listMigratingIfaces({ status }: VirtualMachineInstance): readonly IfaceStatus[] {
  return (status?.interfaces ?? []).filter(
    ({ name, queueCount }) => name !== undefined && queueCount !== undefined,
  );
}

/** Returns the target's tap name or path of the vhost-user socket. Undefined if a plugin creates the tap or no NIC is attached. */
function findTapName(
  vmi: VirtualMachineInstance,
  name: string,
  bindings: BindingRegistry,
): string | undefined {
  const { kind } = resolveBinding(
    findByName(ifacesOf(vmi.spec), name) ?? { name, bridge: {} },
    findByName(networksOf(vmi.spec), name),
    bindings,
  );
  const attachment = findByName(vmi.status?.migrationState?.targetAttachments, name);
  if (kind === "refused" || attachment === undefined) return undefined;
  const { podInterfaceName } = attachment;
  if (kind === "vhostuser") return `${names.LAUNCHER_DIR}/${buildSocketLinkName(podInterfaceName)}`;
  return OWN_TAP_BINDINGS.includes(kind) ? buildTapName(name, podInterfaceName) : undefined;
}

/** Lists the NICs that the target expects. Taps of other components may have any name, so their names are copied from `incoming`. */
export function listExpectedNics(
  vmi: VirtualMachineInstance,
  bindings: BindingRegistry,
  incoming: readonly IncomingNic[],
): readonly IncomingNic[] {
  return listMigratingIfaces(vmi).map(({ name = "", mac = "", pciAddress }) => {
    const nic = incoming.find((incomingNic) => incomingNic.mac === mac);
    return { mac, pciAddress, tap: findTapName(vmi, name, bindings) ?? nic?.tap };
  });
}

export function wasPausedAtSource({ status }: VirtualMachineInstance): boolean {
  return findCondition(status?.conditions, PAUSED)?.status === "True";
}

/** Returns the NICs to announce after the guest resumes in another pod: those with a bridge between tap and pod NIC. */
export function listAnnouncedNics({ ifaces }: NodeVmFacts): readonly AnnouncedNic[] {
  return ifaces
    .filter((iface) => isInPod(iface) && iface.links.hasPodInterface)
    .flatMap((iface) => {
      const wiring = buildWiring(iface);
      if (wiring?.kind !== "bridge") return [];
      const { podInterfaceName, mac } = wiring;
      return [{ podInterfaceName, mac, addresses: iface.remembered?.addresses ?? [] }];
    });
}

function listWirings(facts: NodeVmFacts): readonly PodWiring[] {
  return facts.ifaces
    .filter((iface) => isInPod(iface) && iface.links.hasPodInterface && !isMadeByHook(iface))
    .flatMap((iface) => planWiring(facts, iface) ?? []);
}

function withoutAwaitedIn(wiring: PodWiring): PodWiring {
  const arrivedWiring = { ...wiring };
  delete (arrivedWiring as { incomingPodUid?: string }).incomingPodUid;
  return arrivedWiring;
}

export function listIncomingWirings(facts: NodeVmFacts): readonly PodWiring[] {
  return listWirings(facts).map(withoutAwaitedIn);
}

/** Lists the wirings to apply after the guest has left this pod. These wirings do not flood frames to the tap or use the guest's MAC. */
export function listOutgoingWirings(facts: NodeVmFacts, podUid: string): readonly PodWiring[] {
  return listWirings(facts).map((wiring) => ({ ...wiring, incomingPodUid: podUid }));
}
