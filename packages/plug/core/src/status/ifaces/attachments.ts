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
import { parseNetworkDns } from "../../addresses/resolver.ts";
import { bindingOf } from "../../bindings/resolve-binding.ts";
import { DEFAULT_POD_INTERFACE, extraInterfaceNameOf } from "../../iface/names.ts";
import { isOn, networkNameIn, nicsOfElements, podNicOf } from "../../iface/pod-nic.ts";
import type { NetworksOwner } from "../../plan/pod/pod-networks.ts";
import { networkNameInvalid } from "../../reasons/words.ts";
import type { NodeLoss } from "../../node/node-loss.ts";
import { findByName, ifacesOf, networkNameOf, networksOf, qualifiedName } from "../../spec/nics.ts";

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

/** The kubelet's order says which family is the primary one; the CNI result may have another. */
function inOrderOfPod(ips: readonly string[], podIps: readonly string[]): readonly string[] {
  const listed = podIps.filter((ip) => ips.includes(ip));
  return [...listed, ...ips.filter((ip) => !listed.includes(ip))];
}

function defaultAttachment(name: string, pod: PodNetworkFacts): Attachment {
  const entry = pod.networkStatus.find((status) => status.default === true);
  const identity = { name, podInterfaceName: entry?.interface ?? DEFAULT_POD_INTERFACE };
  if (entry !== undefined) {
    const { ips = [], ...rest } = entry;
    return attached(identity, { ...rest, ips: inOrderOfPod(ips, pod.podIps) });
  }
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

/** The network that the binding of a declared iface brings along, as an attachment beside that one. */
function extraOf(
  { vmi, bindings }: NetworksOwner,
  { name, podInterfaceName: own }: Attachment,
): Identity | undefined {
  const iface = findByName(ifacesOf(vmi.spec), name);
  const network = findByName(networksOf(vmi.spec), name);
  if (iface === undefined || network === undefined) return undefined;
  const binding = bindingOf(iface, network, bindings);
  const extraNetwork = binding.kind === "refused" ? undefined : binding.extraNetwork;
  if (extraNetwork === undefined) return undefined;
  const networkName = qualifiedName(extraNetwork, vmi.metadata.namespace ?? "");
  return { name, networkName, podInterfaceName: extraInterfaceNameOf(own) };
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

/** virt-handler has neither device nor links of the iface any more. Source: design, "one lifecycle for an iface". */
function isLetGo(vmi: VirtualMachineInstance, name: string): boolean {
  return findByName(vmi.status?.interfaces, name)?.hotplug?.phase === "PodDetaching";
}

/** virt-handler has nothing of that NIC of the pod in use, and is not about to: it has said so of another. */
function isUnused(vmi: VirtualMachineInstance, { name, podInterfaceName }: Attachment): boolean {
  const told = findByName(vmi.status?.interfaces, name);
  const used = [
    told?.podInterfaceName ?? podInterfaceName,
    ...(told?.otherPodInterfaceNames ?? []),
  ];
  return !used.includes(podInterfaceName);
}

/** Whether the iface is to be on the network of the attachment. */
function isWanted(attachment: Attachment, vmi: VirtualMachineInstance): boolean {
  const { name } = attachment;
  const iface = findByName(ifacesOf(vmi.spec), name);
  if (iface === undefined || isAbsent(iface)) return false;
  const { namespace = "" } = vmi.metadata;
  return isOn(attachment, networkNameIn(networksOf(vmi.spec), name, namespace));
}

/** Whether the iface is to be on any network. */
function isDeclared(vmi: VirtualMachineInstance, name: string): boolean {
  const iface = findByName(ifacesOf(vmi.spec), name);
  return iface !== undefined && !isAbsent(iface);
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
  const { name, networkName, podInterfaceName } = previous;
  const identity = {
    name,
    ...(networkName === undefined ? {} : { networkName }),
    podInterfaceName,
  };
  const isOver =
    !isWanted(previous, vmi) &&
    (isUnused(vmi, previous) || (!isDeclared(vmi, name) && isLetGo(vmi, name)));
  return isOver ? { ...identity, state: "Removing" } : secondaryAttachment(identity, pod);
}

function identityOf(network: Network, { vmi, pod }: Told): Identity {
  const { namespace = "" } = vmi.metadata;
  const networkName = networkNameOf(network, namespace);
  const inPod = pod.networkStatus.flatMap(({ name, interface: podInterfaceName }) =>
    podInterfaceName === undefined ? [] : [{ networkName: name, podInterfaceName }],
  );
  const known = {
    namespace,
    attachments: vmi.status?.attachments ?? [],
    nics: [...nicsOfElements(pod.elements, namespace), ...inPod],
  };
  return {
    name: network.name,
    ...(networkName === undefined ? {} : { networkName }),
    podInterfaceName: podNicOf(network, known),
  };
}

/** What a VMI's attachments are told from. */
interface Told {
  readonly vmi: VirtualMachineInstance;
  readonly pod: PodNetworkFacts;
}

/** A request that nobody was told of yet says nothing: virt-handler waits for an outcome. */
function isNews(attachment: Attachment, previous: readonly Attachment[]): boolean {
  const { name, podInterfaceName } = attachment;
  return (
    attachment.state !== "Requested" ||
    previous.some((entry) => entry.name === name && entry.podInterfaceName === podInterfaceName)
  );
}

/** The one that the NIC hangs on comes first: who looks for an iface's attachment finds it. */
function inOrder(
  attachments: readonly Attachment[],
  vmi: VirtualMachineInstance,
  name: string,
): readonly Attachment[] {
  const used = findByName(vmi.status?.interfaces, name)?.podInterfaceName;
  const isUsed = ({ podInterfaceName }: Attachment): boolean => podInterfaceName === used;
  return [...attachments.filter(isUsed), ...attachments.filter((entry) => !isUsed(entry))];
}

/** What there is for an iface of the specification on a secondary network. */
function attachmentsOf(network: Network, told: Told): readonly Attachment[] {
  const { vmi, pod } = told;
  const { name } = network;
  const previous = (vmi.status?.attachments ?? []).filter((entry) => entry.name === name);
  const kept = previous.flatMap((entry) => nextOf(entry, vmi, pod) ?? []);
  const networkName = networkNameOf(network, vmi.metadata.namespace ?? "");
  // One to the same network that is going is gone before another is asked for.
  const isKnown = previous.some((entry) => isOn(entry, networkName));
  const fresh =
    isKnown || !isDeclared(vmi, name) ? [] : [secondaryAttachment(identityOf(network, told), pod)];
  return inOrder([...kept, ...fresh], vmi, name);
}

/** The pod is not asked for it, since its node does not have the network. */
function notOnNode(
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

/** Nobody is there who could attach it: that is its outcome until the node answers. */
function heldUpBy(nodeLoss: NodeLoss | undefined, attachment: Attachment): Attachment {
  if (nodeLoss === undefined || attachment.state !== "Requested") return attachment;
  return { ...attachment, state: "Failed", ...nodeLoss };
}

/**
 * `status.attachments`: ifaces of the spec first, in their order, then what is left of deleted ones. An attachment goes
 * only when virt-handler has let go of it and the pod has neither asked for nor got it. An iface that is to be on
 * another network keeps the old one until virt-handler uses the new one.
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
    return attachmentsOf(network, { vmi, pod });
  });
  const left = previous
    .filter(({ name }) => findByName(ifacesOf(vmi.spec), name) === undefined)
    .flatMap((entry) => nextOf(entry, vmi, pod) ?? []);
  return [...ofSpec, ...left]
    .map((each) => withExtra(each, extraOf(owner, each), pod))
    .map((each) => notOnNode(owner, pod, each))
    .map((each) => heldUpBy(nodeLoss, each))
    .filter((attachment) => isNews(attachment, previous));
}
