// SPDX-License-Identifier: Apache-2.0
// What the pod has for each iface, as virt-controller tells virt-handler: `status.attachments`.
import {
  isAbsent,
  isDefaultNetwork,
  parseNadName,
  type Attachment,
  type NetworkSelection,
  type NetworkStatus,
  type Network,
  type VirtualMachineInstance,
  type AttachmentErrors,
  type AttachmentError,
} from "@patchbay/api";
import { bindingOf } from "../bindings/binding-of.ts";
import {
  DEFAULT_POD_INTERFACE,
  extraInterfaceNameOf,
  podInterfaceNameOf,
  type Sha256Hex,
} from "../iface/names.ts";
import type { NetworksWish } from "../plan/pod/pod-networks.ts";
import { networkNameInvalid } from "../reasons/words.ts";
import { findByName, ifacesOf, networkNameOf, networksOf, qualifiedName } from "../spec/nics.ts";

/** What the launcher pod says of its networks. */
export interface PodNetworkFacts {
  readonly elements: readonly NetworkSelection[];
  readonly networkStatus: readonly NetworkStatus[];
  readonly errors: AttachmentErrors;
  readonly podIps: readonly string[];
}

interface Identity {
  readonly name: string;
  readonly networkName?: string;
  readonly podInterfaceName: string;
}

function attached(identity: Identity, entry: NetworkStatus): Attachment {
  const { mac, ips } = entry;
  const deviceInfo = entry["device-info"];
  return {
    ...identity,
    state: "Attached",
    ...(mac === undefined ? {} : { mac }),
    ...(ips === undefined || ips.length === 0 ? {} : { ips: [...ips] }),
    ...(deviceInfo === undefined ? {} : { deviceInfo }),
  };
}

function defaultAttachment(name: string, pod: PodNetworkFacts): Attachment {
  const entry = pod.networkStatus.find((status) => status.default === true);
  const identity = { name, podInterfaceName: entry?.interface ?? DEFAULT_POD_INTERFACE };
  if (entry !== undefined) return attached(identity, entry);
  return pod.podIps.length > 0
    ? { ...identity, state: "Attached", ips: [...pod.podIps] }
    : { ...identity, state: "Requested" };
}

function findStatus(pod: PodNetworkFacts, podInterfaceName: string): NetworkStatus | undefined {
  return pod.networkStatus.find((entry) => entry.interface === podInterfaceName);
}

/** Why the pod was not asked for it. */
function nameProblem({ networkName = "" }: Identity): AttachmentError | undefined {
  return parseNadName(networkName) === undefined ? networkNameInvalid(networkName) : undefined;
}

function secondaryAttachment(identity: Identity, pod: PodNetworkFacts): Attachment {
  const entry = findStatus(pod, identity.podInterfaceName);
  if (entry?.name === identity.networkName && entry !== undefined) return attached(identity, entry);
  const error = nameProblem(identity) ?? pod.errors[identity.podInterfaceName];
  return error === undefined
    ? { ...identity, state: "Requested" }
    : { ...identity, state: "Failed", reason: error.reason, message: error.message };
}

function isInPod(pod: PodNetworkFacts, podInterfaceName: string): boolean {
  return (
    findStatus(pod, podInterfaceName) !== undefined ||
    pod.elements.some((element) => element.interface === podInterfaceName)
  );
}

/** The network that the binding of a declared iface brings along, as an attachment of its own. */
function extraOf(
  { vmi, bindings }: NetworksWish,
  name: string,
  sha256Hex: Sha256Hex,
): Identity | undefined {
  const iface = findByName(ifacesOf(vmi.spec), name);
  const network = findByName(networksOf(vmi.spec), name);
  if (iface === undefined || network === undefined) return undefined;
  const binding = bindingOf(iface, network, bindings);
  const extraNetwork = binding.kind === "refused" ? undefined : binding.extraNetwork;
  if (extraNetwork === undefined) return undefined;
  const networkName = qualifiedName(extraNetwork, vmi.metadata.namespace ?? "");
  const podInterfaceName = extraInterfaceNameOf(podInterfaceNameOf(network, sha256Hex));
  return { name, networkName, podInterfaceName };
}

/** An attachment is there when the network is that its binding brings along too; until then it is as that one is. */
function withExtra(
  attachment: Attachment,
  extra: Identity | undefined,
  pod: PodNetworkFacts,
): Attachment {
  if (extra === undefined || attachment.state !== "Attached") return attachment;
  const { state, reason, message } = secondaryAttachment(extra, pod);
  if (state === "Attached") return attachment;
  const { name, networkName, podInterfaceName } = attachment;
  return {
    name,
    ...(networkName === undefined ? {} : { networkName }),
    podInterfaceName,
    state,
    ...(reason === undefined ? {} : { reason }),
    ...(message === undefined ? {} : { message }),
  };
}

/** The node agent has neither device nor links of the iface any more. Source: design, "one lifecycle for an iface". */
function isLetGo(vmi: VirtualMachineInstance, name: string): boolean {
  return findByName(vmi.status?.interfaces, name)?.hotplug?.phase === "PodDetaching";
}

/** The next word on an attachment that exists; undefined when nothing of it is left. */
function nextOf(
  previous: Attachment,
  vmi: VirtualMachineInstance,
  pod: PodNetworkFacts,
): Attachment | undefined {
  if (previous.state === "Removing") {
    const { podInterfaceName: own } = previous;
    return [own, extraInterfaceNameOf(own)].some((nic) => isInPod(pod, nic)) ? previous : undefined;
  }
  const iface = findByName(ifacesOf(vmi.spec), previous.name);
  const wanted = iface !== undefined && !isAbsent(iface);
  const { name, networkName, podInterfaceName } = previous;
  const identity = {
    name,
    ...(networkName === undefined ? {} : { networkName }),
    podInterfaceName,
  };
  if (wanted || !isLetGo(vmi, name)) return secondaryAttachment(identity, pod);
  return { ...identity, state: "Removing" };
}

function identityOf(network: Network, vmi: VirtualMachineInstance, sha256Hex: Sha256Hex): Identity {
  const networkName = networkNameOf(network, vmi.metadata.namespace ?? "");
  return {
    name: network.name,
    ...(networkName === undefined ? {} : { networkName }),
    podInterfaceName: podInterfaceNameOf(network, sha256Hex),
  };
}

/** A request that nobody was told of yet says nothing: the node agent waits for an outcome. */
function isNews(attachment: Attachment, previous: readonly Attachment[]): boolean {
  return attachment.state !== "Requested" || findByName(previous, attachment.name) !== undefined;
}

/**
 * `status.attachments`: ifaces of the spec first, in their order, then what is left of deleted ones. An attachment goes
 * only when the node agent has let go of it and the pod has neither asked for nor got it.
 */
export function attachmentStatuses(
  wish: NetworksWish,
  pod: PodNetworkFacts,
  sha256Hex: Sha256Hex,
): readonly Attachment[] {
  const { vmi } = wish;
  const previous = vmi.status?.attachments ?? [];
  const ofSpec = ifacesOf(vmi.spec).flatMap((iface): readonly Attachment[] => {
    const network = findByName(networksOf(vmi.spec), iface.name);
    if (network === undefined) return [];
    if (isDefaultNetwork(network)) return [defaultAttachment(iface.name, pod)];
    const known = findByName(previous, iface.name);
    if (known !== undefined) return [nextOf(known, vmi, pod) ?? []].flat();
    return isAbsent(iface) ? [] : [secondaryAttachment(identityOf(network, vmi, sha256Hex), pod)];
  });
  const left = previous
    .filter(({ name }) => findByName(ifacesOf(vmi.spec), name) === undefined)
    .flatMap((entry) => nextOf(entry, vmi, pod) ?? []);
  return [...ofSpec, ...left]
    .map((each) => withExtra(each, extraOf(wish, each.name, sha256Hex), pod))
    .filter((attachment) => isNews(attachment, previous));
}
