// SPDX-License-Identifier: Apache-2.0
// Which NICs go along when a guest moves? Those that it has, on the networks and by the pod NICs that they are on: what is asked
// for meanwhile comes afterwards, and an unplug that the guest has not answered goes along.
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
import { toldAddresses, withKept } from "../../addresses/kept-addresses.ts";
import { findByName, ifacesOf, networksOf, withNics } from "../../spec/nics.ts";

/** An iface that goes along, and what it is on. */
interface Traveller {
  readonly iface: Iface;
  readonly network: Network;
  /** Undefined: the pod's own network. */
  readonly attachment: Attachment | undefined;
}

/** Whether the guest has it: as its node tells. */
function isInGuest(told: IfaceStatus | undefined): boolean {
  if (told?.queueCount !== undefined) return true;
  const { phase, type } = told?.hotplug ?? {};
  return phase === "Ready" || phase === "Detaching" || type === "Swap";
}

/** An unplug goes along with its device: on its way the device is wanted. */
function asWanted(iface: Iface): Iface {
  if (!isAbsent(iface)) return iface;
  return { ...iface, state: "up" };
}

function attachmentOf(
  { status }: VirtualMachineInstance,
  name: string,
  told: IfaceStatus | undefined,
): Attachment | undefined {
  const all = (status?.attachments ?? []).filter(
    (each) => each.name === name && each.state !== "Removing",
  );
  return all.find((each) => each.podInterfaceName === told?.podInterfaceName) ?? all[0];
}

function travellerOf(vmi: VirtualMachineInstance, iface: Iface): readonly Traveller[] {
  const network = findByName(networksOf(vmi.spec), iface.name);
  if (network === undefined) return [];
  if (isDefaultNetwork(network)) return [{ iface, network, attachment: undefined }];
  const told = findByName(vmi.status?.interfaces, iface.name);
  const attachment = attachmentOf(vmi, iface.name, told);
  if (attachment === undefined || !isInGuest(told)) return [];
  const { networkName = network.multus?.networkName ?? "" } = attachment;
  const used = { ...network, multus: { ...network.multus, networkName } };
  return [{ iface: asWanted(iface), network: used, attachment }];
}

/** The VMI, told which addresses its NICs have: the target's networks are asked for the same. */
function withAddresses(
  vmi: VirtualMachineInstance,
  travellers: readonly Traveller[],
): VirtualMachineInstance {
  const have = travellers.flatMap(({ iface: { name }, attachment }) => {
    const { networkName, ips = [] } = attachment ?? {};
    return networkName === undefined || ips.length === 0 ? [] : [{ name, networkName, ips }];
  });
  const before = toldAddresses(vmi).filter((each) => findByName(have, each.name) === undefined);
  return withKept(vmi, [...have, ...before]);
}

/**
 * The target's pod NIC is not told the guest's MAC: a plugin that makes one announces it, and switches would hear the guest there
 * while it runs elsewhere (docs/adr/migration/0101-hear-a-guests-mac-from-one-place.md). What a plugin makes for the guest itself has to
 * have it.
 */
function unheard({ macAddress, ...iface }: Iface): Iface {
  if (macAddress === undefined || iface.binding === undefined) return iface;
  return { ...iface, macAddress };
}

/** What is free of a running guest's ports says nothing of NICs that have theirs. */
function beforeItRuns(status: VmiStatus = {}): VmiStatus {
  const rest = Object.entries(status).filter(([field]) => field !== "pciePorts");
  return Object.fromEntries(rest) as VmiStatus; // of fields that may all be absent
}

/** The VMI as its target's pod is made for it: with what goes along, and nothing reported yet. */
export function travelView(vmi: VirtualMachineInstance): VirtualMachineInstance {
  const travellers = ifacesOf(vmi.spec).flatMap((iface) => travellerOf(vmi, iface));
  const networks = travellers.map(({ network }) => network);
  const ifaces = travellers.map(({ iface }) => unheard(iface));
  const hasNics = ifacesOf(vmi.spec).length > 0 || networksOf(vmi.spec).length > 0;
  const spec = hasNics ? withNics(vmi.spec, networks, ifaces) : vmi.spec;
  const attachments = travellers.flatMap(({ attachment }) => {
    if (attachment === undefined) return [];
    const { name, networkName, podInterfaceName } = attachment;
    const identity = { name, ...(networkName === undefined ? {} : { networkName }) };
    return [{ ...identity, podInterfaceName, state: "Requested" as const }];
  });
  const told = withAddresses(vmi, travellers);
  return { ...told, spec, status: { ...beforeItRuns(vmi.status), attachments, interfaces: [] } };
}
