// SPDX-License-Identifier: Apache-2.0
// Fields of the VMI's status that virt-controller writes.
import {
  isAbsent,
  isDefaultNetwork,
  type Attachment,
  type Network,
  type VirtualMachineInstance,
  isVmiFinal,
  names,
  type VmiPhase,
  type VmiStatus,
} from "@patchbay/api";
import {
  type NetworkSelection,
  type NetworkStatus,
  type AttachmentErrors,
  type CniGateways,
  type AttachmentError,
  parseNetworkStatus,
  parseAttachmentErrors,
  parseCniGateways,
  sanitizeNetworkStatus,
} from "@patchbay/api/annotations";
import { isPodFinished, type Pod } from "@patchbay/api/kubernetes";
import { parseNadName } from "@patchbay/api/values";
import { parseNetworkDns } from "../nics/addresses/resolver.ts";
import { resolveBinding } from "../nics/bindings/resolve-binding.ts";
import { toClaimedAttachment, type ClaimedNics } from "../nics/claimed-nics.ts";
import { DEFAULT_POD_INTERFACE, buildExtraInterfaceName } from "../nics/names.ts";
import { isOnNetwork, findNetworkName, toPodNics, choosePodNic } from "../nics/pod-nic.ts";
import { findClaimWarning, resolveIpamClaims } from "../vm/ipam-claims.ts";
import type { NetworksOwner } from "../vm/pod/pod-networks.ts";
import { defaultNetworkIgnored, macNotAssigned, networkNameInvalid } from "../reasons/messages.ts";
import type { Reason } from "../reasons/table.ts";
import { type NodeLoss, hasRun } from "../node/node-loss.ts";
import { findByName, ifacesOf, networkNameOf, networksOf, qualifyName } from "../nics/nics.ts";
import { ADDRESS_CHANGED, addressesCondition } from "../nics/addresses/retained-addresses.ts";
import { findUnmetMac } from "../nics/mac.ts";
import {
  GUEST_PAUSED_ON_TARGET,
  buildPausedGuestCondition,
  findPausedGuestMessage,
} from "../migration/incoming.ts";
import { EVICTION_REQUESTED, buildEvictionCondition } from "../migration/evacuation.ts";
import { openMigration } from "../migration/owner.ts";
import { findFailedHook } from "../hooks/hook-sidecars.ts";
import { hasMissingImage } from "../vm/pod/image-files.ts";
import { readPodNetworkElements } from "../vm/vmi.ts";
import {
  findCondition,
  PAUSED,
  READY,
  SYNCHRONIZED,
  withTransitionTimes,
  type Conditions,
  type NewCondition,
} from "./conditions.ts";
import { LIVE_MIGRATABLE, buildLiveMigratableCondition } from "./live-migratable.ts";
import {
  findWaiting,
  findHookFailure,
  findPodFailure,
  buildSynchronizedCondition,
  findVmiSyncError,
  type VmiStatusFacts,
} from "./sync-error.ts";
import { buildVolumeStatuses } from "./volumes.ts";

export interface PodNetworkFacts {
  readonly elements: readonly NetworkSelection[];
  readonly networkStatus: readonly NetworkStatus[];
  readonly errors: AttachmentErrors;
  readonly gateways?: CniGateways;
  readonly claimedNics?: ClaimedNics;
  readonly podIps: readonly string[];
}

interface Identity {
  readonly name: string;
  readonly networkName?: string;
  readonly podInterfaceName: string;
}

function toAttached(
  identity: Identity,
  entry: NetworkStatus,
  { gateways = {} }: PodNetworkFacts,
): Attachment {
  const { mac, ips } = entry;
  const nicGateways = gateways[identity.podInterfaceName];
  const deviceInfo = entry["device-info"];
  const dns = parseNetworkDns(entry.dns);
  return {
    ...identity,
    state: "Attached",
    ...(mac === undefined ? {} : { mac }),
    ...(ips === undefined || ips.length === 0 ? {} : { ips: [...ips] }),
    ...(nicGateways === undefined ? {} : { gateways: [...nicGateways] }),
    ...(dns === undefined
      ? {}
      : { dns: { nameservers: [...dns.nameservers], search: [...dns.search] } }),
    ...(deviceInfo === undefined ? {} : { deviceInfo }),
  };
}

/** Sorts addresses in the order of the pod's status, where the first address is primary. The CNI result may have another order. */
function sortByPodOrder(ips: readonly string[], podIps: readonly string[]): readonly string[] {
  const primaryFirst = podIps.filter((ip) => ips.includes(ip));
  return [...primaryFirst, ...ips.filter((ip) => !primaryFirst.includes(ip))];
}

/** Checks whether the pod's primary NIC is on a network other than `networkName`. Without `entry`, this holds if the pod has an address. */
function isOnOtherDefault(
  networkName: string,
  entry: NetworkStatus | undefined,
  { podIps }: PodNetworkFacts,
): boolean {
  return entry === undefined ? podIps.length > 0 : entry.name !== networkName;
}

/** Builds the attachment of the pod's primary NIC. `networkName` is unset for `pod: {}`. */
function buildDefaultAttachment(
  name: string,
  networkName: string | undefined,
  pod: PodNetworkFacts,
): Attachment {
  const entry = pod.networkStatus.find((status) => status.default === true);
  const identity = {
    name,
    ...(networkName === undefined ? {} : { networkName }),
    podInterfaceName: entry?.interface ?? DEFAULT_POD_INTERFACE,
  };
  if (networkName !== undefined && isOnOtherDefault(networkName, entry, pod)) {
    return toFailed(identity, defaultNetworkIgnored(networkName, entry?.name));
  }
  if (entry !== undefined) {
    const { ips = [], ...rest } = entry;
    return toAttached(identity, { ...rest, ips: sortByPodOrder(ips, pod.podIps) }, pod);
  }
  return pod.podIps.length > 0
    ? { ...identity, state: "Attached", ips: [...pod.podIps] }
    : { ...identity, state: "Requested" };
}

function findStatus(pod: PodNetworkFacts, podInterfaceName: string): NetworkStatus | undefined {
  return pod.networkStatus.find((entry) => entry.interface === podInterfaceName);
}

function findNameProblem({ networkName = "" }: Identity): AttachmentError | undefined {
  return parseNadName(networkName) === undefined ? networkNameInvalid(networkName) : undefined;
}

function findMacError(
  { networkName = "", podInterfaceName }: Identity,
  { mac: assigned }: NetworkStatus,
  pod: PodNetworkFacts,
): AttachmentError | undefined {
  const element = pod.elements.find((each) => each.interface === podInterfaceName);
  const requested = findUnmetMac(element, assigned);
  if (requested === undefined || assigned === undefined) return undefined;
  return macNotAssigned(networkName, requested, assigned);
}

const NETWORK_CHANGED: Reason = "NetworkChanged";

/** Returns a warning if the network's definition was edited after the NIC was attached. */
function findWarning(
  { podInterfaceName }: Identity,
  pod: PodNetworkFacts,
): Pick<Attachment, "reason" | "message"> {
  const error = pod.errors[podInterfaceName];
  if (error?.reason !== NETWORK_CHANGED) return {};
  return { reason: error.reason, message: error.message };
}

function toFailed(identity: Identity, { reason, message }: AttachmentError): Attachment {
  return { ...identity, state: "Failed", reason, message };
}

function buildSecondaryAttachment(
  identity: Identity,
  pod: PodNetworkFacts,
  previous?: Attachment,
): Attachment {
  const entry = findStatus(pod, identity.podInterfaceName);
  if (entry !== undefined && entry.name === identity.networkName) {
    const macError =
      previous?.state === "Attached" ? undefined : findMacError(identity, entry, pod);
    if (macError !== undefined) return toFailed(identity, macError);
    return { ...toAttached(identity, entry, pod), ...findWarning(identity, pod) };
  }
  const error = findNameProblem(identity) ?? pod.errors[identity.podInterfaceName];
  return error === undefined ? { ...identity, state: "Requested" } : toFailed(identity, error);
}

function isInPod(pod: PodNetworkFacts, podInterfaceName: string): boolean {
  return (
    findStatus(pod, podInterfaceName) !== undefined ||
    pod.elements.some((element) => element.interface === podInterfaceName)
  );
}

function findExtraNetwork(
  { vmi, bindings }: NetworksOwner,
  { name, podInterfaceName: attachedName }: Attachment,
): Identity | undefined {
  const iface = findByName(ifacesOf(vmi.spec), name);
  const network = findByName(networksOf(vmi.spec), name);
  if (iface === undefined || network === undefined) return undefined;
  const binding = resolveBinding(iface, network, bindings);
  const extraNetwork = binding.kind === "refused" ? undefined : binding.extraNetwork;
  if (extraNetwork === undefined) return undefined;
  const networkName = qualifyName(extraNetwork, vmi.metadata.namespace ?? "");
  return { name, networkName, podInterfaceName: buildExtraInterfaceName(attachedName) };
}

/** Returns the attachment. Until its binding's additional network is attached, the result has the state and error of that network. */
function withExtra(
  attachment: Attachment,
  extraIdentity: Identity | undefined,
  pod: PodNetworkFacts,
): Attachment {
  if (extraIdentity === undefined || attachment.state !== "Attached") return attachment;
  const { state, reason, message } = buildSecondaryAttachment(extraIdentity, pod);
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

function isReleased(vmi: VirtualMachineInstance, name: string): boolean {
  return findByName(vmi.status?.interfaces, name)?.hotplug?.phase === "PodDetaching";
}

/** Checks whether virt-handler reports pod NICs for the interface, but not the attachment's pod NIC. */
function isUnused(vmi: VirtualMachineInstance, { name, podInterfaceName }: Attachment): boolean {
  const ifaceStatus = findByName(vmi.status?.interfaces, name);
  const usedNames = [
    ifaceStatus?.podInterfaceName ?? podInterfaceName,
    ...(ifaceStatus?.otherPodInterfaceNames ?? []),
  ];
  return !usedNames.includes(podInterfaceName);
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

function advanceAttachment(
  previous: Attachment,
  vmi: VirtualMachineInstance,
  pod: PodNetworkFacts,
): Attachment | undefined {
  if (previous.state === "Removing") {
    const { podInterfaceName: podNicName } = previous;
    return [podNicName, buildExtraInterfaceName(podNicName)].some((nic) => isInPod(pod, nic))
      ? previous
      : undefined;
  }
  const { name, networkName, podInterfaceName } = previous;
  const identity = {
    name,
    ...(networkName === undefined ? {} : { networkName }),
    podInterfaceName,
  };
  const isObsolete =
    !isWanted(previous, vmi) &&
    (isUnused(vmi, previous) || (!isDeclared(vmi, name) && isReleased(vmi, name)));
  if (isObsolete) return { ...identity, state: "Removing" };
  return networkName === undefined
    ? toClaimedAttachment(name, pod.claimedNics?.get(name), previous)
    : buildSecondaryAttachment(identity, pod, previous);
}

function buildIdentity(network: Network, { vmi, pod }: AttachmentSources): Identity {
  const { namespace = "" } = vmi.metadata;
  const networkName = networkNameOf(network, namespace);
  const podNics = pod.networkStatus.flatMap(({ name, interface: podInterfaceName }) =>
    podInterfaceName === undefined ? [] : [{ networkName: name, podInterfaceName }],
  );
  const nicSources = {
    namespace,
    attachments: vmi.status?.attachments ?? [],
    nics: [...toPodNics(pod.elements, namespace), ...podNics],
  };
  return {
    name: network.name,
    ...(networkName === undefined ? {} : { networkName }),
    podInterfaceName: choosePodNic(network, nicSources),
  };
}

interface AttachmentSources {
  readonly vmi: VirtualMachineInstance;
  readonly pod: PodNetworkFacts;
}

/** Returns whether the status may list the attachment. Omits a new attachment until CNI returns the result that virt-handler needs. */
function isReportable(attachment: Attachment, previous: readonly Attachment[]): boolean {
  const { name, podInterfaceName } = attachment;
  return (
    attachment.state !== "Requested" ||
    previous.some((entry) => entry.name === name && entry.podInterfaceName === podInterfaceName)
  );
}

/** Sorts the attachment in use first, because lookups by interface name return the first match. */
function sortUsedFirst(
  attachments: readonly Attachment[],
  vmi: VirtualMachineInstance,
  name: string,
): readonly Attachment[] {
  const usedName = findByName(vmi.status?.interfaces, name)?.podInterfaceName;
  const isUsed = ({ podInterfaceName }: Attachment): boolean => podInterfaceName === usedName;
  return [...attachments.filter(isUsed), ...attachments.filter((entry) => !isUsed(entry))];
}

function listAttachments(network: Network, sources: AttachmentSources): readonly Attachment[] {
  const { vmi, pod } = sources;
  const { name } = network;
  const previous = (vmi.status?.attachments ?? []).filter((entry) => entry.name === name);
  const retainedAttachments = previous.flatMap((entry) => advanceAttachment(entry, vmi, pod) ?? []);
  const networkName = networkNameOf(network, vmi.metadata.namespace ?? "");
  // While an attachment to the same network exists, no new attachment is listed.
  const isKnown = previous.some((entry) => isOnNetwork(entry, networkName));
  const buildNew = (): Attachment =>
    network.resourceClaim === undefined
      ? buildSecondaryAttachment(buildIdentity(network, sources), pod)
      : toClaimedAttachment(name, pod.claimedNics?.get(name));
  const newAttachments = isKnown || !isDeclared(vmi, name) ? [] : [buildNew()];
  return sortUsedFirst([...retainedAttachments, ...newAttachments], vmi, name);
}

/** Marks a requested attachment as failed if the node cannot provide its network and the pod does not have the NIC. */
function failIfNetworkAbsent(
  { absences }: NetworksOwner,
  pod: PodNetworkFacts,
  attachment: Attachment,
): Attachment {
  const { state, networkName = "", podInterfaceName } = attachment;
  const unavailableNetwork = absences?.get(networkName);
  if (unavailableNetwork === undefined || state !== "Requested" || isInPod(pod, podInterfaceName)) {
    return attachment;
  }
  return { ...attachment, state: "Failed", ...unavailableNetwork };
}

function failIfNodeLost(nodeLoss: NodeLoss | undefined, attachment: Attachment): Attachment {
  if (nodeLoss === undefined || attachment.state !== "Requested") return attachment;
  return { ...attachment, state: "Failed", ...nodeLoss };
}

/**
 * Lists attachments of the spec's interfaces in order, then attachments of deleted interfaces. The attachment of a deleted interface is
 * listed until virt-handler has released it and the pod neither requests nor has it. During a network swap, the old attachment remains
 * until virt-handler uses the new attachment.
 */
export function attachmentStatuses(
  owner: NetworksOwner,
  pod: PodNetworkFacts,
  nodeLoss?: NodeLoss,
): readonly Attachment[] {
  const { vmi } = owner;
  const previous = vmi.status?.attachments ?? [];
  const declaredAttachments = ifacesOf(vmi.spec).flatMap((iface): readonly Attachment[] => {
    const network = findByName(networksOf(vmi.spec), iface.name);
    if (network === undefined) return [];
    if (isDefaultNetwork(network)) {
      const networkName = networkNameOf(network, vmi.metadata.namespace ?? "");
      return [buildDefaultAttachment(iface.name, networkName, pod)];
    }
    return listAttachments(network, { vmi, pod });
  });
  const removedAttachments = previous
    .filter(({ name }) => findByName(ifacesOf(vmi.spec), name) === undefined)
    .flatMap((entry) => advanceAttachment(entry, vmi, pod) ?? []);
  return [...declaredAttachments, ...removedAttachments]
    .map((listed) => withExtra(listed, findExtraNetwork(owner, listed), pod))
    .map((listed) => failIfNetworkAbsent(owner, pod, listed))
    .map((listed) => failIfNodeLost(nodeLoss, listed))
    .map((listed) => ({ ...findClaimWarning(listed, owner.ipamClaims, pod.elements), ...listed }))
    .filter((attachment) => isReportable(attachment, previous));
}

export type ControllerVmiStatus = Pick<
  VmiStatus,
  | "phase"
  | "reason"
  | "phaseTransitionTimestamps"
  | "nodeName"
  | "activePods"
  | "attachments"
  | "volumeStatus"
  | "conditions"
>;

export function podNetworkFacts(pod: Pod, claimedNics?: ClaimedNics): PodNetworkFacts {
  const annotations = pod.metadata.annotations ?? {};
  return {
    elements: readPodNetworkElements(pod),
    networkStatus: parseNetworkStatus(annotations[names.NETWORK_STATUS_ANNOTATION]).map(
      sanitizeNetworkStatus,
    ),
    errors: parseAttachmentErrors(annotations[names.ATTACHMENT_ERRORS_ANNOTATION]),
    gateways: parseCniGateways(annotations[names.CNI_GATEWAYS_ANNOTATION]),
    podIps: pod.status?.podIPs?.map(({ ip }) => ip) ?? [],
    ...(claimedNics !== undefined && { claimedNics }),
  };
}

/** Returns the final phase if the launcher container has ended, even if other containers still run. Otherwise returns undefined. */
export function findGuestEnd(pod: Pod): VmiPhase | undefined {
  if (isPodFinished(pod)) return pod.status?.phase === "Succeeded" ? "Succeeded" : "Failed";
  const { containerStatuses = [] } = pod.status ?? {};
  const launcherStatus = containerStatuses.find(({ name }) => name === names.LAUNCHER_CONTAINER);
  const terminated = launcherStatus?.state.terminated;
  if (terminated === undefined) return undefined;
  return terminated.exitCode === 0 ? "Succeeded" : "Failed";
}

/** Returns the phase from the guest's pod. Ignores the end of the pod during a migration, because the guest may be in another pod. */
function findPhaseWithPod({ vmi, nodeLoss }: VmiStatusFacts, pod: Pod): VmiPhase {
  const finalPhase = openMigration(vmi) === undefined ? findGuestEnd(pod) : undefined;
  if (finalPhase !== undefined) return finalPhase;
  if (nodeLoss !== undefined) return "Unknown";
  // A guest that has run returns from Unknown to Running when its node responds again.
  if (hasRun(vmi)) return "Running";
  if (findFailedHook(pod) !== undefined) return "Failed";
  return pod.status?.phase === "Running" ? "Scheduled" : "Scheduling";
}

/** Returns the VMI's phase. It does not change if it is final, or if the pod is missing during a migration. */
function findPhase(situation: VmiStatusFacts, pod: Pod | undefined): VmiPhase {
  const { vmi } = situation;
  const currentPhase = vmi.status?.phase ?? "";
  if (isVmiFinal(vmi)) return currentPhase;
  if (pod !== undefined) return findPhaseWithPod(situation, pod);
  if (vmi.status?.activePods === undefined) return "Pending";
  return openMigration(vmi) === undefined ? "Failed" : currentPhase;
}

const LOST_REASON: NodeLoss["reason"] = "NodeUnresponsive";

/** Returns the phases with start times. Adds `phase` if it is new. Source: KubeVirt VirtualMachineInstancePhaseTransitionTimestamp. */
function phaseTransitions(
  vmi: VirtualMachineInstance,
  phase: VmiPhase,
  now: string,
): NonNullable<VmiStatus["phaseTransitionTimestamps"]> {
  const oldTransitions = vmi.status?.phaseTransitionTimestamps ?? [];
  const isKnown = oldTransitions.some((entry) => entry.phase === phase);
  return isKnown ? oldTransitions : [...oldTransitions, { phase, phaseTransitionTimestamp: now }];
}

/** Condition types that virt-controller writes. virt-controller preserves all other conditions. */
const OWN_CONDITIONS: readonly string[] = [
  READY,
  SYNCHRONIZED,
  ADDRESS_CHANGED,
  LIVE_MIGRATABLE,
  GUEST_PAUSED_ON_TARGET,
  EVICTION_REQUESTED,
];

/** Builds the condition LiveMigratable if the guest runs or its node does not respond. */
function buildMigrationCondition({ vmi, storage, network }: VmiStatusFacts, phase: VmiPhase) {
  if (phase !== "Running" && phase !== "Unknown") return [];
  const { bindings } = network;
  return [buildLiveMigratableCondition({ vmi, claims: storage.claims, bindings })];
}

/** Builds the condition Ready of a running guest from the launcher pod's condition. Source: KubeVirt syncReadyConditionFromPod. */
function buildPodReadyCondition(pod: Pod | undefined): NewCondition {
  const podCondition = pod?.status?.conditions?.find(({ type }) => type === READY);
  if (podCondition?.status !== "False") return { type: READY, status: "True" };
  const { reason = "ContainersNotReady", message = "the launcher pod is not ready" } = podCondition;
  return { type: READY, status: "False", reason, message };
}

/** Builds the condition Ready of a running guest. Source: KubeVirt readiness gate kubevirt.io/virtual-machine-unpaused. */
function buildRunningReadyCondition({ vmi, pod }: VmiStatusFacts): NewCondition {
  const pausedMessage = findPausedGuestMessage(openMigration(vmi));
  if (pausedMessage !== undefined) {
    return { type: READY, status: "False", reason: GUEST_PAUSED_ON_TARGET, message: pausedMessage };
  }
  const isPaused = findCondition(vmi.status?.conditions, PAUSED)?.status === "True";
  if (!isPaused) return buildPodReadyCondition(pod);
  const message = "the guest is paused: its processors stand still";
  return { type: READY, status: "False", reason: "ReadinessGatesNotReady", message };
}

function buildReadyCondition(situation: VmiStatusFacts, phase: VmiPhase): NewCondition {
  if (phase === "Running") return buildRunningReadyCondition(situation);
  const { vmi, pod, nodeLoss } = situation;
  const blocker = nodeLoss ?? vmi.status?.blockedReason ?? findPodFailure(pod) ?? findWaiting(pod);
  return {
    type: READY,
    status: "False",
    reason: blocker?.reason ?? "GuestNotRunning",
    message: blocker?.message ?? "Guest VM is not reported as running",
  };
}

function listConditions(
  facts: VmiStatusFacts,
  { phase, attachments = [] }: Pick<ControllerVmiStatus, "phase" | "attachments">,
  now: string,
): Conditions {
  const { vmi, pod } = facts;
  const storedConditions = vmi.status?.conditions;
  const elements = pod === undefined ? [] : readPodNetworkElements(pod);
  const ownConditions = [
    buildReadyCondition(facts, phase ?? ""),
    ...buildSynchronizedCondition(findVmiSyncError(facts)),
    ...addressesCondition(attachments, elements),
    ...buildMigrationCondition(facts, phase ?? ""),
    ...buildPausedGuestCondition(openMigration(vmi)),
    ...buildEvictionCondition(vmi),
  ];
  const otherConditions = (storedConditions ?? []).filter(
    ({ type }) => !OWN_CONDITIONS.includes(type),
  );
  return [...withTransitionTimes(ownConditions, storedConditions, now), ...otherConditions];
}

function buildVolumeFields({ vmi, storage }: VmiStatusFacts): Pick<VmiStatus, "volumeStatus"> {
  const statuses = buildVolumeStatuses(vmi, storage.claims);
  return statuses.length === 0 ? {} : { volumeStatus: [...statuses] };
}

function failureReason({ vmi, pod }: VmiStatusFacts, phase: VmiPhase): Pick<VmiStatus, "reason"> {
  const lost = vmi.status?.phase === "Unknown" ? LOST_REASON : undefined;
  const failure = findPodFailure(pod) ?? findHookFailure(vmi, pod);
  const reason = failure?.reason ?? lost ?? vmi.status?.reason;
  return phase === "Failed" && reason !== undefined ? { reason } : {};
}

/** Returns the guest's pod. Before the guest starts, ignores a pod that lacks an image, because virt-controller replaces such a pod. */
function findLauncher({ vmi, pod }: VmiStatusFacts): Pod | undefined {
  const isReplaced = vmi.status?.activePods === undefined && pod !== undefined;
  return isReplaced && hasMissingImage(pod) ? undefined : pod;
}

/** Returns `activePods` with the guest's pod and node. Returns no field during a migration, when another patch sets both pods. */
function buildActivePodFields(
  vmi: VirtualMachineInstance,
  pod: Pod | undefined,
): Pick<ControllerVmiStatus, "activePods"> {
  const node = pod?.spec.nodeName;
  const uid = pod?.metadata.uid;
  const isMigrating = openMigration(vmi) !== undefined;
  return isMigrating || node === undefined || uid === undefined
    ? {}
    : { activePods: { [uid]: node } };
}

export function buildVmiStatus(facts: VmiStatusFacts, now: string): ControllerVmiStatus {
  const { vmi } = facts;
  const pod = findLauncher(facts);
  const node = pod?.spec.nodeName;
  const ipamClaims = resolveIpamClaims({ vmi, pod }, facts.definitions, facts.ipamClaims);
  const owner = { vmi, bindings: facts.network.bindings, absences: facts.absences, ipamClaims };
  const attachments =
    pod === undefined
      ? undefined
      : attachmentStatuses(owner, podNetworkFacts(pod, facts.claimedNics), facts.nodeLoss);
  const phase = findPhase(facts, pod);
  return {
    phase,
    ...failureReason(facts, phase),
    phaseTransitionTimestamps: phaseTransitions(vmi, phase, now),
    ...(node === undefined ? {} : { nodeName: node }),
    ...buildActivePodFields(vmi, pod),
    ...(attachments === undefined || attachments.length === 0
      ? {}
      : { attachments: [...attachments] }),
    ...buildVolumeFields(facts),
    conditions: listConditions(facts, { phase, attachments: [...(attachments ?? [])] }, now),
  };
}
