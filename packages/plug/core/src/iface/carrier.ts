// SPDX-License-Identifier: Apache-2.0
// Which of the NICs in the pod does an iface hang on, which is it to hang on, and which have only links of ours left?
import { isAbsent, type Attachment, type VirtualMachineInstance } from "@patchbay/api";
import { findByName, ifacesOf, networkNameOf, networksOf } from "../spec/nics.ts";
import { namesOf, podInterfaceOfTap } from "./names.ts";
import { isOn, podNicOf } from "./pod-nic.ts";

/** A NIC in the pod, and what the pod is told to have it for. */
export interface CarryingNic {
  readonly podInterfaceName: string;
  readonly attachment?: Attachment;
}

/** The NICs in the pod of one iface. */
export interface Carrier extends CarryingNic {
  /** That of another network, which the guest's device is to have after a network swap. */
  readonly swap?: CarryingNic;
  /** Those around which there is a bridge of ours still, which carries nothing. */
  readonly left: readonly string[];
}

/** What tells where an iface hangs. */
export interface CarrierSources {
  readonly vmi: VirtualMachineInstance;
  /** The guest has a device of it, or is taken to have one. */
  readonly hasDevice: boolean;
  /** What the device opens, as libvirt says. */
  readonly deviceTap: string | undefined;
  /** Name of the bridge that the tap of an iface with that NIC is a port of. */
  readonly bridgeOfTap: (podInterfaceName: string) => string | undefined;
  /** Whether there is a link of that name. */
  readonly hasLink: (name: string) => boolean;
}

interface Known {
  readonly name: string;
  /** What the pod was told to have, the one that was in use last first. */
  readonly told: readonly Attachment[];
  /** The network that the specification wants the iface on; undefined: none, or the pod's own. */
  readonly networkName: string | undefined;
  /** NIC on the network that the specification says. */
  readonly wanted: string | undefined;
  /** NICs that the last report says are in use. */
  readonly reported: readonly string[];
  /** All of those. */
  readonly all: readonly string[];
}

/** The specification's word: the network, and the NIC that it has or will have. */
function declaredOf(
  name: string,
  told: readonly Attachment[],
  vmi: VirtualMachineInstance,
): Pick<Known, "networkName" | "wanted"> {
  const { namespace = "" } = vmi.metadata;
  const iface = findByName(ifacesOf(vmi.spec), name);
  const network = findByName(networksOf(vmi.spec), name);
  if (network === undefined) return { networkName: undefined, wanted: undefined };
  const isWanted = iface !== undefined && !isAbsent(iface);
  return {
    networkName: isWanted ? networkNameOf(network, namespace) : undefined,
    wanted: podNicOf(network, { namespace, attachments: told, nics: [] }),
  };
}

function knownOf(name: string, vmi: VirtualMachineInstance): Known {
  const told = (vmi.status?.attachments ?? []).filter((entry) => entry.name === name);
  const { podInterfaceName, otherPodInterfaceNames = [] } =
    findByName(vmi.status?.interfaces, name) ?? {};
  const reported = [podInterfaceName ?? [], otherPodInterfaceNames].flat();
  const declared = declaredOf(name, told, vmi);
  const nics = told.map((entry) => entry.podInterfaceName);
  const all = [...new Set([...nics, ...reported, declared.wanted ?? []].flat())];
  return { name, told, reported, all, ...declared };
}

/** NIC by the first source that knows the iface; what is done keeps the name that it was done with. */
function lastUsed({ told, reported, wanted }: Known, deviceTap: string | undefined): string {
  const known = told[0]?.podInterfaceName ?? reported[0] ?? wanted;
  if (known !== undefined) return known;
  return deviceTap === undefined ? "" : podInterfaceOfTap(deviceTap);
}

/** With a device, the one on whose bridge its tap is; without one, the one that is wanted. */
function currentOf(known: Known, sources: CarrierSources): string {
  const { name, told, networkName, wanted } = known;
  if (!sources.hasDevice) {
    const mayChoose = networkName !== undefined && told.length > 0;
    return (mayChoose ? wanted : undefined) ?? lastUsed(known, sources.deviceTap);
  }
  const isCarrying = (nic: string): boolean =>
    sources.bridgeOfTap(nic) === namesOf(name, nic).bridgeName;
  const reported = known.reported
    .slice(0, 1)
    .filter((nic) => known.told.some(({ podInterfaceName }) => podInterfaceName === nic));
  return known.all.find(isCarrying) ?? reported[0] ?? lastUsed(known, sources.deviceTap);
}

function nicOf(podInterfaceName: string, { told }: Known): CarryingNic {
  const attachment = told.find((entry) => entry.podInterfaceName === podInterfaceName);
  return { podInterfaceName, ...(attachment === undefined ? {} : { attachment }) };
}

/** The network swap that the device is to make; none to the network on which it is. */
function swapOf(current: CarryingNic, known: Known, hasDevice: boolean): CarryingNic | undefined {
  const { networkName, wanted } = known;
  if (!hasDevice || networkName === undefined || wanted === undefined) return undefined;
  if (wanted === current.podInterfaceName) return undefined;
  const { attachment } = current;
  return attachment !== undefined && isOn(attachment, networkName)
    ? undefined
    : nicOf(wanted, known);
}

/** Where the iface of that name hangs. */
export function carrierOf(name: string, sources: CarrierSources): Carrier {
  const known = knownOf(name, sources.vmi);
  const current = nicOf(currentOf(known, sources), known);
  const swap = swapOf(current, known, sources.hasDevice);
  const used = [current.podInterfaceName, swap?.podInterfaceName];
  const left = known.all.filter(
    (nic) => !used.includes(nic) && sources.hasLink(namesOf(name, nic).bridgeName),
  );
  return { ...current, ...(swap === undefined ? {} : { swap }), left };
}
