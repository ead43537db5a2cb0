// SPDX-License-Identifier: Apache-2.0
// Reports of the pod's NICs: net-agent's entries in the annotation `network-status`, from which virt-controller writes `status.attachments` for virt-handler.
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
import { parseNetworkDns } from "../addresses/resolver.ts";
import { resolveBinding } from "../bindings/resolve-binding.ts";
import { DEFAULT_POD_INTERFACE, buildExtraInterfaceName } from "../names.ts";
import { isOnNetwork, findNetworkName, toPodNics, choosePodNic } from "../pod-nic.ts";
import type { NetworksOwner } from "../../vm/pod/pod-networks.ts";
import { networkNameInvalid } from "../../reasons/messages.ts";
import type { NodeLoss } from "../../node/node-loss.ts";
import { findByName, ifacesOf, networkNameOf, networksOf, qualifiedName } from "../nics.ts";
import type { OwnedAttachment } from "../attachments/attachment-actions.ts";

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
  const dns = parseNetworkDns(entry.dns);
  return {
    ...identity,
    state: "Attached",
    ...(mac === undefined ? {} : { mac }),
    ...(ips === undefined || ips.length === 0 ? {} : { ips: [...ips] }),
    ...(dns === undefined
      ? {}
      : { dns: { nameservers: [...dns.nameservers], search: [...dns.search] } }),
    ...(deviceInfo === undefined ? {} : { deviceInfo }),
  };
}

/** The kubelet's order decides the primary family. The CNI result may have another order. */
function sortByPodOrder(ips: readonly string[], podIps: readonly string[]): readonly string[] {
  const listed = podIps.filter((ip) => ips.includes(ip));
  return [...listed, ...ips.filter((ip) => !listed.includes(ip))];
}

function defaultAttachment(name: string, pod: PodNetworkFacts): Attachment {
  const entry = pod.networkStatus.find((status) => status.default === true);
  const identity = { name, podInterfaceName: entry?.interface ?? DEFAULT_POD_INTERFACE };
  if (entry !== undefined) {
    const { ips = [], ...rest } = entry;
    return attached(identity, { ...rest, ips: sortByPodOrder(ips, pod.podIps) });
  }
  return pod.podIps.length > 0
    ? { ...identity, state: "Attached", ips: [...pod.podIps] }
    : { ...identity, state: "Requested" };
}

function findStatus(pod: PodNetworkFacts, podInterfaceName: string): NetworkStatus | undefined {
  return pod.networkStatus.find((entry) => entry.interface === podInterfaceName);
}

function nameProblem({ networkName = "" }: Identity): AttachmentError | undefined {
  return parseNadName(networkName) === undefined ? networkNameInvalid(networkName) : undefined;
}

function secondaryAttachment(identity: Identity, pod: PodNetworkFacts): Attachment {
  const entry = findStatus(pod, identity.podInterfaceName);
  if (entry !== undefined && entry.name === identity.networkName) return attached(identity, entry);
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

function findExtraNetwork(
  { vmi, bindings }: NetworksOwner,
  { name, podInterfaceName: own }: Attachment,
): Identity | undefined {
  const iface = findByName(ifacesOf(vmi.spec), name);
  const network = findByName(networksOf(vmi.spec), name);
  if (iface === undefined || network === undefined) return undefined;
  const binding = resolveBinding(iface, network, bindings);
  const extraNetwork = binding.kind === "refused" ? undefined : binding.extraNetwork;
  if (extraNetwork === undefined) return undefined;
  const networkName = qualifiedName(extraNetwork, vmi.metadata.namespace ?? "");
  return { name, networkName, podInterfaceName: buildExtraInterfaceName(own) };
}

/** The attachment is ready only if its binding's additional network is. Until then it has that network's state. */
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

/** virt-handler has removed the interface's device and links. Source: design, "one lifecycle for an iface". */
function isReleased(vmi: VirtualMachineInstance, name: string): boolean {
  return findByName(vmi.status?.interfaces, name)?.hotplug?.phase === "PodDetaching";
}

/** Whether virt-handler reports other pod NICs for the interface, so this one is not in use. */
function isUnused(vmi: VirtualMachineInstance, { name, podInterfaceName }: Attachment): boolean {
  const sources = findByName(vmi.status?.interfaces, name);
  const used = [
    sources?.podInterfaceName ?? podInterfaceName,
    ...(sources?.otherPodInterfaceNames ?? []),
  ];
  return !used.includes(podInterfaceName);
}

function isWanted(attachment: Attachment, vmi: VirtualMachineInstance): boolean {
  const { name } = attachment;
  const iface = findByName(ifacesOf(vmi.spec), name);
  if (iface === undefined || isAbsent(iface)) return false;
  const { namespace = "" } = vmi.metadata;
  return isOnNetwork(attachment, findNetworkName(networksOf(vmi.spec), name, namespace));
}

function isDeclared(vmi: VirtualMachineInstance, name: string): boolean {
  const iface = findByName(ifacesOf(vmi.spec), name);
  return iface !== undefined && !isAbsent(iface);
}

function nextAttachment(
  previous: Attachment,
  vmi: VirtualMachineInstance,
  pod: PodNetworkFacts,
): Attachment | undefined {
  if (previous.state === "Removing") {
    const { podInterfaceName: own } = previous;
    return [own, buildExtraInterfaceName(own)].some((nic) => isInPod(pod, nic))
      ? previous
      : undefined;
  }
  const { name, networkName, podInterfaceName } = previous;
  const identity = {
    name,
    ...(networkName === undefined ? {} : { networkName }),
    podInterfaceName,
  };
  const isOver =
    !isWanted(previous, vmi) &&
    (isUnused(vmi, previous) || (!isDeclared(vmi, name) && isReleased(vmi, name)));
  return isOver ? { ...identity, state: "Removing" } : secondaryAttachment(identity, pod);
}

function buildIdentity(network: Network, { vmi, pod }: AttachmentSources): Identity {
  const { namespace = "" } = vmi.metadata;
  const networkName = networkNameOf(network, namespace);
  const inPod = pod.networkStatus.flatMap(({ name, interface: podInterfaceName }) =>
    podInterfaceName === undefined ? [] : [{ networkName: name, podInterfaceName }],
  );
  const known = {
    namespace,
    attachments: vmi.status?.attachments ?? [],
    nics: [...toPodNics(pod.elements, namespace), ...inPod],
  };
  return {
    name: network.name,
    ...(networkName === undefined ? {} : { networkName }),
    podInterfaceName: choosePodNic(network, known),
  };
}

interface AttachmentSources {
  readonly vmi: VirtualMachineInstance;
  readonly pod: PodNetworkFacts;
}

/** A new attachment is listed only when it has a result, because virt-handler can do nothing before. */
function isReportable(attachment: Attachment, previous: readonly Attachment[]): boolean {
  const { name, podInterfaceName } = attachment;
  return (
    attachment.state !== "Requested" ||
    previous.some((entry) => entry.name === name && entry.podInterfaceName === podInterfaceName)
  );
}

/** The attachment in use comes first, because lookups by interface return the first one. */
function usedFirst(
  attachments: readonly Attachment[],
  vmi: VirtualMachineInstance,
  name: string,
): readonly Attachment[] {
  const used = findByName(vmi.status?.interfaces, name)?.podInterfaceName;
  const isUsed = ({ podInterfaceName }: Attachment): boolean => podInterfaceName === used;
  return [...attachments.filter(isUsed), ...attachments.filter((entry) => !isUsed(entry))];
}

function listAttachments(network: Network, sources: AttachmentSources): readonly Attachment[] {
  const { vmi, pod } = sources;
  const { name } = network;
  const previous = (vmi.status?.attachments ?? []).filter((entry) => entry.name === name);
  const retained = previous.flatMap((entry) => nextAttachment(entry, vmi, pod) ?? []);
  const networkName = networkNameOf(network, vmi.metadata.namespace ?? "");
  // An earlier attachment to the same network must be gone before a new one is requested.
  const isKnown = previous.some((entry) => isOnNetwork(entry, networkName));
  const fresh =
    isKnown || !isDeclared(vmi, name)
      ? []
      : [secondaryAttachment(buildIdentity(network, sources), pod)];
  return usedFirst([...retained, ...fresh], vmi, name);
}

/** Fails attachments to networks that the node cannot provide, which the pod does not request. */
function withAbsence(
  { absences }: NetworksOwner,
  pod: PodNetworkFacts,
  attachment: Attachment,
): Attachment {
  const { state, networkName = "", podInterfaceName } = attachment;
  const absence = absences?.get(networkName);
  if (absence === undefined || state !== "Requested" || isInPod(pod, podInterfaceName)) {
    return attachment;
  }
  return { ...attachment, state: "Failed", ...absence };
}

function withNodeLoss(nodeLoss: NodeLoss | undefined, attachment: Attachment): Attachment {
  if (nodeLoss === undefined || attachment.state !== "Requested") return attachment;
  return { ...attachment, state: "Failed", ...nodeLoss };
}

/**
 * Lists the spec's interfaces in order, then attachments of deleted interfaces. An attachment is removed only when
 * virt-handler has released it and the pod neither requests nor has it. During a network swap the old attachment stays
 * until virt-handler uses the new one.
 */
export function attachmentStatuses(
  owner: NetworksOwner,
  pod: PodNetworkFacts,
  nodeLoss?: NodeLoss,
): readonly Attachment[] {
  const { vmi } = owner;
  const previous = vmi.status?.attachments ?? [];
  const ofSpec = ifacesOf(vmi.spec).flatMap((iface): readonly Attachment[] => {
    const network = findByName(networksOf(vmi.spec), iface.name);
    if (network === undefined) return [];
    if (isDefaultNetwork(network)) return [defaultAttachment(iface.name, pod)];
    return listAttachments(network, { vmi, pod });
  });
  const leftovers = previous
    .filter(({ name }) => findByName(ifacesOf(vmi.spec), name) === undefined)
    .flatMap((entry) => nextAttachment(entry, vmi, pod) ?? []);
  return [...ofSpec, ...leftovers]
    .map((each) => withExtra(each, findExtraNetwork(owner, each), pod))
    .map((each) => withAbsence(owner, pod, each))
    .map((each) => withNodeLoss(nodeLoss, each))
    .filter((attachment) => isReportable(attachment, previous));
}

export interface ReportedAttachment extends Pick<
  OwnedAttachment,
  "interfaceName" | "state" | "isStale" | "isAdopted"
> {
  /** CNI results, one for each NIC in the pod. Empty until ADD has succeeded. */
  readonly entries: readonly NetworkStatus[];
}

export function listInterfaces({
  interfaceName,
  entries,
}: Pick<ReportedAttachment, "interfaceName" | "entries">): readonly string[] {
  return [...new Set([interfaceName, ...entries.flatMap((entry) => entry.interface ?? [])])];
}

/**
 * Replaces own entries in place, and appends new ones in the order of `attachments`, which is the order they were started
 * in. Drops entries of deleted sandboxes.
 */
export function mergeNetworkStatus(
  current: readonly NetworkStatus[],
  attachments: readonly ReportedAttachment[],
): readonly NetworkStatus[] {
  const present = attachments.filter(({ state, isStale }) => state === "attached" && !isStale);
  // The runtime writes the entries of what it created. In a new sandbox that may be a NIC that net-agent removed before.
  const adopted = new Set(present.filter(({ isAdopted }) => isAdopted).flatMap(listInterfaces));
  const ours = attachments.filter(({ isAdopted, state }) => !isAdopted || state === "removed");
  const own = new Set(ours.flatMap(listInterfaces).filter((name) => !adopted.has(name)));
  const written = new Set(current.map((entry) => entry.interface));
  const entries = present.flatMap(({ isAdopted, entries: all }) =>
    isAdopted ? all.filter((entry) => !written.has(entry.interface)) : all,
  );
  const retained = current.flatMap((entry) =>
    entry.interface === undefined || !own.has(entry.interface)
      ? [entry]
      : entries.filter(({ interface: name }) => name === entry.interface),
  );
  const placed = new Set(retained.map((entry) => entry.interface));
  return [...retained, ...entries.filter((entry) => !placed.has(entry.interface))];
}
