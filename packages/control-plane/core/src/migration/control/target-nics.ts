// SPDX-License-Identifier: Apache-2.0
// NICs that migrate with the guest: all current NICs, including those that are being unplugged.
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
import { isNicMac, normalizeMac } from "@patchbay/api/values";
import type { Pod } from "@patchbay/api/kubernetes";
import {
  readRetainedAddresses,
  withRetainedAddresses,
} from "../../nics/addresses/retained-addresses.ts";
import { mayCheckMacs } from "../../nics/definition/needs.ts";
import { findByName, ifacesOf, networksOf, withNics } from "../../nics/nics.ts";
import type { Definitions } from "../../node/definitions.ts";
import type { Reason } from "../../reasons/table.ts";
import { isEqual } from "@patchbay/base";
import { attachmentStatuses, podNetworkFacts } from "../../status/vmi.ts";
import { findIpamClaimsInUse, type IpamClaimStates } from "../../vm/ipam-claims.ts";
import { findPodNetwork, readPrimaryClaim } from "../../vm/primary-network.ts";
import { readPodNetworkElements, type VmiFacts } from "../../vm/vmi.ts";
import type { MigrationFacts } from "./facts.ts";

interface MigratingNic {
  readonly iface: Iface;
  readonly network: Network;
  /** Attachment on the source node. Undefined for the pod network. */
  readonly attachment: Attachment | undefined;
}

function isInGuest(ifaceStatus: IfaceStatus | undefined): boolean {
  if (ifaceStatus?.queueCount !== undefined) return true;
  const { phase, type } = ifaceStatus?.hotplug ?? {};
  return phase === "Ready" || phase === "Detaching" || type === "Swap";
}

/** Replaces the state `absent` by `up`, because the guest has the NIC until the unplug is complete. */
function toPlugged(iface: Iface): Iface {
  if (!isAbsent(iface)) return iface;
  return { ...iface, state: "up" };
}

function findAttachment(
  { status }: VirtualMachineInstance,
  name: string,
  ifaceStatus: IfaceStatus | undefined,
): Attachment | undefined {
  const candidates = (status?.attachments ?? []).filter(
    (attachment) => attachment.name === name && attachment.state !== "Removing",
  );
  return (
    candidates.find(
      (attachment) => attachment.podInterfaceName === ifaceStatus?.podInterfaceName,
    ) ?? candidates[0]
  );
}

function toMigratingNic(vmi: VirtualMachineInstance, iface: Iface): readonly MigratingNic[] {
  const network = findByName(networksOf(vmi.spec), iface.name);
  if (network === undefined) return [];
  if (isDefaultNetwork(network)) return [{ iface, network, attachment: undefined }];
  const ifaceStatus = findByName(vmi.status?.interfaces, iface.name);
  const attachment = findAttachment(vmi, iface.name, ifaceStatus);
  if (attachment === undefined || !isInGuest(ifaceStatus)) return [];
  const { networkName = network.multus?.networkName ?? "" } = attachment;
  const currentNetwork = { ...network, multus: { ...network.multus, networkName } };
  return [{ iface: toPlugged(iface), network: currentNetwork, attachment }];
}

/** Records the NICs' addresses as retained addresses, which the target pod requests from its networks. */
function withAddresses(
  vmi: VirtualMachineInstance,
  migratingNics: readonly MigratingNic[],
): VirtualMachineInstance {
  const assignedAddresses = migratingNics.flatMap(({ iface: { name }, attachment }) => {
    const { networkName, ips = [] } = attachment ?? {};
    return networkName === undefined || ips.length === 0 ? [] : [{ name, networkName, ips }];
  });
  const otherAddresses = readRetainedAddresses(vmi).filter(
    (retained) => findByName(assignedAddresses, retained.name) === undefined,
  );
  return withRetainedAddresses(vmi, [...assignedAddresses, ...otherAddresses]);
}

/**
 * Omits the MAC, because the target pod must not announce it while the guest runs on the source. Keeps the MAC of an interface
 * with a registered binding. See docs/adr/migration/0101-hear-a-guests-mac-from-one-place.md.
 */
function withoutMac({ macAddress, ...iface }: Iface): Iface {
  if (macAddress === undefined || iface.binding === undefined) return iface;
  return { ...iface, macAddress };
}

function isMacChecked(
  attachment: Pick<Attachment, "networkName"> | undefined,
  definitions: Definitions,
): boolean {
  const definition = definitions.get(attachment?.networkName ?? "");
  return mayCheckMacs(definition?.spec?.config);
}

/**
 * Returns the interface with the MAC to request on the target. Requests the guest's MAC if the network may drop frames from other MACs.
 * Switches may then send the guest's frames to the target while the guest still runs on the source; this lasts until the source node
 * announces the MAC again. For other networks, and for registered bindings, see {@link withoutMac}.
 */
function withTargetMac(
  { iface, attachment }: MigratingNic,
  { status }: VirtualMachineInstance,
  definitions: Definitions,
): Iface {
  if (iface.binding !== undefined || !isMacChecked(attachment, definitions))
    return withoutMac(iface);
  const { mac = attachment?.mac ?? "" } = findByName(status?.interfaces, iface.name) ?? {};
  const macAddress = iface.macAddress ?? mac;
  return isNicMac(macAddress) ? { ...iface, macAddress: normalizeMac(macAddress) } : iface;
}

/**
 * Removes the numbers of total and free PCIe ports. With these numbers, each NIC would seem to wait for a free port, because {@link
 * buildTargetPodView} reports no NICs in the guest.
 */
function withoutPorts(status: VmiStatus = {}): VmiStatus {
  const otherFields = Object.entries(status).filter(([field]) => field !== "pciePorts");
  return Object.fromEntries(otherFields) as VmiStatus;
}

/** Returns the VMI from which the target pod is built. It has only the NICs that migrate, and its status has no interfaces. */
export function buildTargetPodView(
  vmi: VirtualMachineInstance,
  definitions: Definitions = new Map(),
): VirtualMachineInstance {
  const migratingNics = ifacesOf(vmi.spec).flatMap((iface) => toMigratingNic(vmi, iface));
  const networks = migratingNics.map(({ network }) => network);
  const ifaces = migratingNics.map((nic) => withTargetMac(nic, vmi, definitions));
  const hasNics = ifacesOf(vmi.spec).length > 0 || networksOf(vmi.spec).length > 0;
  const spec = hasNics ? withNics(vmi.spec, networks, ifaces) : vmi.spec;
  const attachments = migratingNics.flatMap(({ attachment }) => {
    if (attachment === undefined) return [];
    const { name, networkName, podInterfaceName } = attachment;
    const identity = { name, ...(networkName === undefined ? {} : { networkName }) };
    return [{ ...identity, podInterfaceName, state: "Requested" as const }];
  });
  const vmiWithAddresses = withAddresses(vmi, migratingNics);
  return {
    ...vmiWithAddresses,
    spec,
    status: { ...withoutPorts(vmi.status), attachments, interfaces: [] },
  };
}

export function findSourceClaims({ vmi, pod }: VmiFacts): IpamClaimStates {
  const elements = pod === undefined ? [] : readPodNetworkElements(pod);
  const secondary = findIpamClaimsInUse(vmi.status?.attachments ?? [], elements);
  const network = findPodNetwork(vmi.spec);
  const claim = readPrimaryClaim(pod);
  if (network === undefined || claim === undefined) return secondary;
  return new Map([...secondary, [network.name, { kind: "usable", ...claim }]]);
}

export function targetAttachments(
  { guest, targetAbsences }: MigrationFacts,
  pod: Pod,
): readonly Attachment[] {
  if (guest === undefined) return [];
  const { vmi, network, definitions } = guest;
  const view = buildTargetPodView(vmi, definitions);
  const reportedAttachments = vmi.status?.migrationState?.targetAttachments ?? [];
  const attachments = (view.status?.attachments ?? []).map(
    (attachment) =>
      reportedAttachments.find(
        ({ podInterfaceName: nic }) => nic === attachment.podInterfaceName,
      ) ?? attachment,
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

/** Checks whether the attachment is on the pod network, which assigns new addresses to each pod. */
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

const UNMET: Reason = "RequestNotMet";

/** Describes a failed attachment of the target, whose network did not assign the guest's MAC and may drop the guest's frames. */
function describeUnmetMac(
  target: Attachment | undefined,
  definitions: Definitions,
): string | undefined {
  if (target?.state !== "Failed" || target.reason !== UNMET) return undefined;
  if (!isMacChecked(target, definitions)) return undefined;
  return `interface ${target.name} could have no traffic on the target's node, because network ${target.networkName ?? ""} may pass only frames from the MAC that it assigned: ${target.message ?? ""}; let the network assign the guest's MAC there, or declare "macspoofchk": false in its definition if it passes all MACs`;
}

/** Describes the first NIC whose MAC or addresses differ between source and target. A running guest would not adopt new addresses. */
export function findTargetNicProblem(facts: MigrationFacts): string | undefined {
  const { guest, targetPod } = facts;
  if (guest === undefined || targetPod === undefined) return undefined;
  const target = targetAttachments(facts, targetPod);
  const [firstDifference] = (guest.vmi.status?.attachments ?? [])
    .filter((source) => !isOnPodNetwork(guest.vmi, source))
    .flatMap((source) => {
      const counterpart = findByName(target, source.name);
      const problem = describeUnmetMac(counterpart, guest.definitions);
      return problem ?? describeDifference(source, counterpart) ?? [];
    });
  return firstDifference;
}
