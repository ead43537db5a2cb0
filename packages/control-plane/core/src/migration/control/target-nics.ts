// SPDX-License-Identifier: Apache-2.0
// NICs that migrate with the guest: those it has, on their current networks and pod NICs. Later requests are applied after the
// migration. An unplug that the guest has not completed migrates with its device.
import {
  isAbsent,
  isDefaultNetwork,
  type Attachment,
  type Iface,
  type IfaceStatus,
  type Network,
  type VirtualMachineInstance,
  type VmiStatus,
} from "@patchbay/api";
import { normalizeAddresses } from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import {
  readRetainedAddresses,
  withRetainedAddresses,
} from "../../nics/addresses/retained-addresses.ts";
import { findByName, ifacesOf, networksOf, withNics } from "../../nics/nics.ts";
import { isEqual } from "@patchbay/base";
import { attachmentStatuses, podNetworkFacts } from "../../status/vmi.ts";
import type { MigrationFacts } from "./facts.ts";

interface MigratingNic {
  readonly iface: Iface;
  readonly network: Network;
  /** Undefined for the pod's own network. */
  readonly attachment: Attachment | undefined;
}

function isInGuest(reported: IfaceStatus | undefined): boolean {
  if (reported?.queueCount !== undefined) return true;
  const { phase, type } = reported?.hotplug ?? {};
  return phase === "Ready" || phase === "Detaching" || type === "Swap";
}

/** A device that is being unplugged still migrates, so the target must create it. */
function asWanted(iface: Iface): Iface {
  if (!isAbsent(iface)) return iface;
  return { ...iface, state: "up" };
}

function findAttachment(
  { status }: VirtualMachineInstance,
  name: string,
  reported: IfaceStatus | undefined,
): Attachment | undefined {
  const all = (status?.attachments ?? []).filter(
    (each) => each.name === name && each.state !== "Removing",
  );
  return all.find((each) => each.podInterfaceName === reported?.podInterfaceName) ?? all[0];
}

function toMigratingNic(vmi: VirtualMachineInstance, iface: Iface): readonly MigratingNic[] {
  const network = findByName(networksOf(vmi.spec), iface.name);
  if (network === undefined) return [];
  if (isDefaultNetwork(network)) return [{ iface, network, attachment: undefined }];
  const reported = findByName(vmi.status?.interfaces, iface.name);
  const attachment = findAttachment(vmi, iface.name, reported);
  if (attachment === undefined || !isInGuest(reported)) return [];
  const { networkName = network.multus?.networkName ?? "" } = attachment;
  const used = { ...network, multus: { ...network.multus, networkName } };
  return [{ iface: asWanted(iface), network: used, attachment }];
}

/** Records the NICs' addresses, so that the target's networks are asked for the same ones. */
function withAddresses(
  vmi: VirtualMachineInstance,
  travellers: readonly MigratingNic[],
): VirtualMachineInstance {
  const have = travellers.flatMap(({ iface: { name }, attachment }) => {
    const { networkName, ips = [] } = attachment ?? {};
    return networkName === undefined || ips.length === 0 ? [] : [{ name, networkName, ips }];
  });
  const before = readRetainedAddresses(vmi).filter(
    (each) => findByName(have, each.name) === undefined,
  );
  return withRetainedAddresses(vmi, [...have, ...before]);
}

/**
 * Omits the guest's MAC. A plugin that sets it on the target's pod NIC would announce it, and switches would send the
 * guest's frames there while it still runs on the source; see
 * docs/adr/migration/0101-hear-a-guests-mac-from-one-place.md. Registered bindings create the guest's own NIC, which
 * must have the MAC.
 */
function withoutMac({ macAddress, ...iface }: Iface): Iface {
  if (macAddress === undefined || iface.binding === undefined) return iface;
  return { ...iface, macAddress };
}

/** Free ports of the running guest do not limit NICs that already have a port. */
function withoutPorts(status: VmiStatus = {}): VmiStatus {
  const rest = Object.entries(status).filter(([field]) => field !== "pciePorts");
  return Object.fromEntries(rest) as VmiStatus;
}

/** The VMI as input for the target pod: with the migrating NICs, and without reported interfaces. */
export function targetPodView(vmi: VirtualMachineInstance): VirtualMachineInstance {
  const travellers = ifacesOf(vmi.spec).flatMap((iface) => toMigratingNic(vmi, iface));
  const networks = travellers.map(({ network }) => network);
  const ifaces = travellers.map(({ iface }) => withoutMac(iface));
  const hasNics = ifacesOf(vmi.spec).length > 0 || networksOf(vmi.spec).length > 0;
  const spec = hasNics ? withNics(vmi.spec, networks, ifaces) : vmi.spec;
  const attachments = travellers.flatMap(({ attachment }) => {
    if (attachment === undefined) return [];
    const { name, networkName, podInterfaceName } = attachment;
    const identity = { name, ...(networkName === undefined ? {} : { networkName }) };
    return [{ ...identity, podInterfaceName, state: "Requested" as const }];
  });
  const reported = withAddresses(vmi, travellers);
  return {
    ...reported,
    spec,
    status: { ...withoutPorts(vmi.status), attachments, interfaces: [] },
  };
}

export function targetAttachments(
  { guest, targetAbsences }: MigrationFacts,
  pod: Pod,
): readonly Attachment[] {
  if (guest === undefined) return [];
  const { vmi, network } = guest;
  const view = targetPodView(vmi);
  const reported = vmi.status?.migrationState?.targetAttachments ?? [];
  const attachments = (view.status?.attachments ?? []).map(
    (each) => reported.find(({ podInterfaceName: nic }) => nic === each.podInterfaceName) ?? each,
  );
  const owner = {
    vmi: { ...view, status: { ...view.status, attachments } },
    bindings: network.bindings,
    absences: targetAbsences,
  };
  return attachmentStatuses(owner, podNetworkFacts(pod));
}

function sortedAddresses(attachment: Attachment | undefined): readonly string[] {
  return attachment?.state === "Attached" ? normalizeAddresses(attachment.ips).toSorted() : [];
}

/** The pod network assigns new addresses to each pod. Guests that can migrate are masqueraded behind them. */
function isOnPodNetwork({ spec }: VirtualMachineInstance, { name }: Attachment): boolean {
  const network = findByName(networksOf(spec), name);
  return network !== undefined && isDefaultNetwork(network);
}

function describeDifference(
  source: Attachment,
  target: Attachment | undefined,
): string | undefined {
  const [sourceAddresses, targetAddresses] = [sortedAddresses(source), sortedAddresses(target)];
  if (
    sourceAddresses.length === 0 ||
    targetAddresses.length === 0 ||
    isEqual(sourceAddresses, targetAddresses)
  )
    return undefined;
  return `network ${source.networkName ?? ""} gave interface ${source.name} other addresses on the target's node (${targetAddresses.join(", ")}) than the guest has (${sourceAddresses.join(", ")}); let its IPAM give the same ones on each node, or none`;
}

/** Describes addresses on the target that differ from the guest's, which the guest cannot adopt while running. */
export function addressProblem(facts: MigrationFacts): string | undefined {
  const { guest, targetPod } = facts;
  if (guest === undefined || targetPod === undefined) return undefined;
  const target = targetAttachments(facts, targetPod);
  const [first] = (guest.vmi.status?.attachments ?? [])
    .filter((source) => !isOnPodNetwork(guest.vmi, source))
    .flatMap((source) => describeDifference(source, findByName(target, source.name)) ?? []);
  return first;
}
