// SPDX-License-Identifier: Apache-2.0
// Fields of the VMI's status that virt-controller writes: `status.attachments`, which virt-handler reads, phase, pod, volumes
// and conditions.
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
  type AttachmentError,
  parseNetworkStatus,
  parseAttachmentErrors,
  sanitizeNetworkStatus,
} from "@patchbay/api/annotations";
import { isPodFinished, type Pod, type PersistentVolumeClaim } from "@patchbay/api/kubernetes";
import { parseNadName } from "@patchbay/api/values";
import { parseNetworkDns } from "../nics/addresses/resolver.ts";
import { resolveBinding } from "../nics/bindings/resolve-binding.ts";
import { DEFAULT_POD_INTERFACE, buildExtraInterfaceName } from "../nics/names.ts";
import { isOnNetwork, findNetworkName, toPodNics, choosePodNic } from "../nics/pod-nic.ts";
import type { NetworksOwner } from "../vm/pod/pod-networks.ts";
import { networkNameInvalid } from "../reasons/messages.ts";
import { type NodeLoss, hasRun } from "../node/node-loss.ts";
import { findByName, ifacesOf, networkNameOf, networksOf, qualifyName } from "../nics/nics.ts";
import { ADDRESS_CHANGED, addressesCondition } from "../nics/addresses/retained-addresses.ts";
import {
  GUEST_HELD_CONDITION,
  buildPausedGuestCondition,
  findPausedGuestMessage,
} from "../migration/incoming.ts";
import { EVICTION_REQUESTED, evictionCondition } from "../migration/evacuation.ts";
import { openMigration } from "../migration/owner.ts";
import { findFailedHook } from "../hooks/hook-sidecars.ts";
import { hasMissingImage } from "../vm/pod/image-files.ts";
import { podNetworkElements } from "../vm/vmi.ts";
import {
  findCondition,
  PAUSED,
  READY,
  SYNCHRONIZED,
  withTransitionTimes,
  type Conditions,
  type NewCondition,
} from "./conditions.ts";
import { LIVE_MIGRATABLE, liveMigratableCondition } from "./live-migratable.ts";
import {
  findWaiting,
  hookFailure,
  podFailure,
  synchronizedCondition,
  vmiSyncError,
  type VmiStatusFacts,
} from "./sync-error.ts";
import { readClaimMode } from "../vm/spec/disk-files.ts";
import { findClaimName, listDisks } from "../vm/spec/disks.ts";

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

function toAttached(identity: Identity, entry: NetworkStatus): Attachment {
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

/** Sorts addresses as in the pod's status, whose first one is primary. The CNI result may have another order. */
function sortByPodOrder(ips: readonly string[], podIps: readonly string[]): readonly string[] {
  const listed = podIps.filter((ip) => ips.includes(ip));
  return [...listed, ...ips.filter((ip) => !listed.includes(ip))];
}

function defaultAttachment(name: string, pod: PodNetworkFacts): Attachment {
  const entry = pod.networkStatus.find((status) => status.default === true);
  const identity = { name, podInterfaceName: entry?.interface ?? DEFAULT_POD_INTERFACE };
  if (entry !== undefined) {
    const { ips = [], ...rest } = entry;
    return toAttached(identity, { ...rest, ips: sortByPodOrder(ips, pod.podIps) });
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
  if (entry !== undefined && entry.name === identity.networkName)
    return toAttached(identity, entry);
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
  const networkName = qualifyName(extraNetwork, vmi.metadata.namespace ?? "");
  return { name, networkName, podInterfaceName: buildExtraInterfaceName(own) };
}

/** Replaces an attachment's state with that of its binding's additional network until both are attached. */
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

/** Whether virt-handler has removed the interface's device and links. */
function isReleased(vmi: VirtualMachineInstance, name: string): boolean {
  return findByName(vmi.status?.interfaces, name)?.hotplug?.phase === "PodDetaching";
}

/** Whether virt-handler reports other pod NICs for the interface, so this one is not in use. */
function isUnused(vmi: VirtualMachineInstance, { name, podInterfaceName }: Attachment): boolean {
  const reported = findByName(vmi.status?.interfaces, name);
  const used = [
    reported?.podInterfaceName ?? podInterfaceName,
    ...(reported?.otherPodInterfaceNames ?? []),
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

/** Whether to list the attachment. A new one is listed when it has a result, because virt-handler cannot act before. */
function isReportable(attachment: Attachment, previous: readonly Attachment[]): boolean {
  const { name, podInterfaceName } = attachment;
  return (
    attachment.state !== "Requested" ||
    previous.some((entry) => entry.name === name && entry.podInterfaceName === podInterfaceName)
  );
}

/** Sorts the attachment in use first, because lookups by interface return the first one. */
function sortUsedFirst(
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
  // A second attachment to the same network is requested only after the first was detached.
  const isKnown = previous.some((entry) => isOnNetwork(entry, networkName));
  const fresh =
    isKnown || !isDeclared(vmi, name)
      ? []
      : [secondaryAttachment(buildIdentity(network, sources), pod)];
  return sortUsedFirst([...retained, ...fresh], vmi, name);
}

/** Marks an attachment as failed if its node cannot provide the network, because the pod does not request it then. */
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
 * Lists attachments of the spec's interfaces in order, then those of deleted interfaces. An attachment is removed when
 * virt-handler has released it and the pod neither requests nor has it. A network swap's old attachment stays until
 * virt-handler uses the new one.
 */
export function attachmentStatuses(
  owner: NetworksOwner,
  pod: PodNetworkFacts,
  nodeLoss?: NodeLoss,
): readonly Attachment[] {
  const { vmi } = owner;
  const previous = vmi.status?.attachments ?? [];
  const declared = ifacesOf(vmi.spec).flatMap((iface): readonly Attachment[] => {
    const network = findByName(networksOf(vmi.spec), iface.name);
    if (network === undefined) return [];
    if (isDefaultNetwork(network)) return [defaultAttachment(iface.name, pod)];
    return listAttachments(network, { vmi, pod });
  });
  const leftovers = previous
    .filter(({ name }) => findByName(ifacesOf(vmi.spec), name) === undefined)
    .flatMap((entry) => nextAttachment(entry, vmi, pod) ?? []);
  return [...declared, ...leftovers]
    .map((each) => withExtra(each, findExtraNetwork(owner, each), pod))
    .map((each) => withAbsence(owner, pod, each))
    .map((each) => withNodeLoss(nodeLoss, each))
    .filter((attachment) => isReportable(attachment, previous));
}

type VolumeStatus = NonNullable<VmiStatus["volumeStatus"]>[number];

type ClaimInfo = NonNullable<VolumeStatus["persistentVolumeClaimInfo"]>;

function claimInfo(claim: PersistentVolumeClaim): ClaimInfo {
  const { capacity } = claim.status ?? {};
  const { accessModes, resources } = claim.spec;
  return {
    claimName: claim.metadata.name,
    volumeMode: readClaimMode(claim),
    ...(accessModes === undefined ? {} : { accessModes: [...accessModes] }),
    ...(capacity === undefined ? {} : { capacity: { ...capacity } }),
    ...(resources?.requests === undefined ? {} : { requests: { ...resources.requests } }),
  };
}

/** Returns one entry for each disk, with its claim's volume mode for virt-handler. A missing claim's last entry stays. */
export function volumeStatuses(
  { spec, status }: VirtualMachineInstance,
  claims: ReadonlyMap<string, PersistentVolumeClaim>,
): readonly VolumeStatus[] {
  return listDisks(spec).map(({ name, source }) => {
    const before = findByName(status?.volumeStatus, name);
    const claim = claims.get(findClaimName(source) ?? "");
    return {
      ...(before ?? { name, target: "" }),
      ...(claim === undefined ? {} : { persistentVolumeClaimInfo: claimInfo(claim) }),
    };
  });
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

export function podNetworkFacts(pod: Pod): PodNetworkFacts {
  const annotations = pod.metadata.annotations ?? {};
  return {
    elements: podNetworkElements(pod),
    networkStatus: parseNetworkStatus(annotations[names.NETWORK_STATUS_ANNOTATION]).map(
      sanitizeNetworkStatus,
    ),
    errors: parseAttachmentErrors(annotations[names.ATTACHMENT_ERRORS_ANNOTATION]),
    podIps: pod.status?.podIPs?.map(({ ip }) => ip) ?? [],
  };
}

/** Returns the phase of an ended guest by its container, even if other containers of the pod still run. Undefined before. */
export function findGuestEnd(pod: Pod): VmiPhase | undefined {
  if (isPodFinished(pod)) return pod.status?.phase === "Succeeded" ? "Succeeded" : "Failed";
  const { containerStatuses = [] } = pod.status ?? {};
  const compute = containerStatuses.find(({ name }) => name === names.LAUNCHER_CONTAINER);
  const terminated = compute?.state.terminated;
  if (terminated === undefined) return undefined;
  return terminated.exitCode === 0 ? "Succeeded" : "Failed";
}

/** Returns the phase by the guest's pod. While a migration is open, the guest may be in the migration's other pod. */
function phaseWithPod({ vmi, nodeLoss }: VmiStatusFacts, pod: Pod): VmiPhase {
  const end = openMigration(vmi) === undefined ? findGuestEnd(pod) : undefined;
  if (end !== undefined) return end;
  if (nodeLoss !== undefined) return "Unknown";
  // When a lost node responds again, Running follows Unknown.
  if (hasRun(vmi)) return "Running";
  // The guest must not start without its hook.
  if (findFailedHook(pod) !== undefined) return "Failed";
  return pod.status?.phase === "Running" ? "Scheduled" : "Scheduling";
}

/**
 * Returns the phase. virt-handler writes the first Running. Unknown means that the node does not respond. A guest whose
 * pod was deleted has failed unless a migration is open.
 */
function findPhase(situation: VmiStatusFacts, pod: Pod | undefined): VmiPhase {
  const { vmi } = situation;
  const current = vmi.status?.phase ?? "";
  if (isVmiFinal(vmi)) return current;
  if (pod !== undefined) return phaseWithPod(situation, pod);
  if (vmi.status?.activePods === undefined) return "Pending";
  return openMigration(vmi) === undefined ? "Failed" : current;
}

const LOST_REASON: NodeLoss["reason"] = "NodeUnresponsive";

/** Adds the time of a new phase; known phases keep their first time. Source: KubeVirt VirtualMachineInstancePhaseTransitionTimestamp. */
function phaseTransitions(
  vmi: VirtualMachineInstance,
  phase: VmiPhase,
  now: string,
): NonNullable<VmiStatus["phaseTransitionTimestamps"]> {
  const before = vmi.status?.phaseTransitionTimestamps ?? [];
  const isKnown = before.some((entry) => entry.phase === phase);
  return isKnown ? before : [...before, { phase, phaseTransitionTimestamp: now }];
}

/** Condition types that virt-controller writes. It copies all others. */
const OWN_CONDITIONS: readonly string[] = [
  READY,
  SYNCHRONIZED,
  ADDRESS_CHANGED,
  LIVE_MIGRATABLE,
  GUEST_HELD_CONDITION,
  EVICTION_REQUESTED,
];

/** Builds the condition LiveMigratable, for guests that run or whose node does not respond. */
function migrationCondition({ vmi, storage, network }: VmiStatusFacts, phase: VmiPhase) {
  if (phase !== "Running" && phase !== "Unknown") return [];
  const { bindings } = network;
  return [liveMigratableCondition({ vmi, claims: storage.claims, bindings })];
}

/** Builds a running guest's condition Ready from the launcher pod's. Source: KubeVirt syncReadyConditionFromPod. */
function podReadyCondition(pod: Pod | undefined): NewCondition {
  const reported = pod?.status?.conditions?.find(({ type }) => type === READY);
  if (reported?.status !== "False") return { type: READY, status: "True" };
  const { reason = "ContainersNotReady", message = "the launcher pod is not ready" } = reported;
  return { type: READY, status: "False", reason, message };
}

/** Builds a running guest's condition Ready; paused guests are not ready. Source: KubeVirt readiness gate kubevirt.io/virtual-machine-unpaused. */
function runningReadyCondition({ vmi, pod }: VmiStatusFacts): NewCondition {
  const pausedMessage = findPausedGuestMessage(openMigration(vmi));
  if (pausedMessage !== undefined) {
    return { type: READY, status: "False", reason: GUEST_HELD_CONDITION, message: pausedMessage };
  }
  const isPaused = findCondition(vmi.status?.conditions, PAUSED)?.status === "True";
  if (!isPaused) return podReadyCondition(pod);
  const message = "the guest is paused: its processors stand still";
  return { type: READY, status: "False", reason: "ReadinessGatesNotReady", message };
}

function readyCondition(situation: VmiStatusFacts, phase: VmiPhase): NewCondition {
  if (phase === "Running") return runningReadyCondition(situation);
  const { vmi, pod, nodeLoss } = situation;
  const reported = nodeLoss ?? vmi.status?.hindrance ?? podFailure(pod) ?? findWaiting(pod);
  return {
    type: READY,
    status: "False",
    reason: reported?.reason ?? "GuestNotRunning",
    message: reported?.message ?? "Guest VM is not reported as running",
  };
}

function listConditions(
  facts: VmiStatusFacts,
  { phase, attachments = [] }: Pick<ControllerVmiStatus, "phase" | "attachments">,
  now: string,
): Conditions {
  const { vmi, pod } = facts;
  const stored = vmi.status?.conditions;
  const elements = pod === undefined ? [] : podNetworkElements(pod);
  const own = [
    readyCondition(facts, phase ?? ""),
    ...synchronizedCondition(vmiSyncError(facts)),
    ...addressesCondition(attachments, elements),
    ...migrationCondition(facts, phase ?? ""),
    ...buildPausedGuestCondition(openMigration(vmi)),
    ...evictionCondition(vmi),
  ];
  const others = (stored ?? []).filter(({ type }) => !OWN_CONDITIONS.includes(type));
  return [...withTransitionTimes(own, stored, now), ...others];
}

function volumeFields({ vmi, storage }: VmiStatusFacts): Pick<VmiStatus, "volumeStatus"> {
  const statuses = volumeStatuses(vmi, storage.claims);
  return statuses.length === 0 ? {} : { volumeStatus: [...statuses] };
}

/** Returns why a VMI has failed. The stored reason stays, because the pod may be deleted before the VMI. */
function failureReason({ vmi, pod }: VmiStatusFacts, phase: VmiPhase): Pick<VmiStatus, "reason"> {
  const lost = vmi.status?.phase === "Unknown" ? LOST_REASON : undefined;
  const failure = podFailure(pod) ?? hookFailure(vmi, pod);
  const reason = failure?.reason ?? lost ?? vmi.status?.reason;
  return phase === "Failed" && reason !== undefined ? { reason } : {};
}

/** Returns the guest's pod. Ignores a pod that lost an image volume: it is replaced and never runs the guest. */
function findLauncher({ vmi, pod }: VmiStatusFacts): Pod | undefined {
  const isReplaced = vmi.status?.activePods === undefined && pod !== undefined;
  return isReplaced && hasMissingImage(pod) ? undefined : pod;
}

/** Returns the guest's pod and node. Empty while a migration is open, which writes both pods. */
function activePodFields(
  vmi: VirtualMachineInstance,
  pod: Pod | undefined,
): Pick<ControllerVmiStatus, "activePods"> {
  const node = pod?.spec.nodeName;
  const uid = pod?.metadata.uid;
  const isMoving = openMigration(vmi) !== undefined;
  return isMoving || node === undefined || uid === undefined ? {} : { activePods: { [uid]: node } };
}

export function buildVmiStatus(facts: VmiStatusFacts, now: string): ControllerVmiStatus {
  const { vmi } = facts;
  const pod = findLauncher(facts);
  const node = pod?.spec.nodeName;
  const owner = { vmi, bindings: facts.network.bindings, absences: facts.absences };
  const attachments =
    pod === undefined ? undefined : attachmentStatuses(owner, podNetworkFacts(pod), facts.nodeLoss);
  const phase = findPhase(facts, pod);
  return {
    phase,
    ...failureReason(facts, phase),
    phaseTransitionTimestamps: phaseTransitions(vmi, phase, now),
    ...(node === undefined ? {} : { nodeName: node }),
    ...activePodFields(vmi, pod),
    ...(attachments === undefined || attachments.length === 0
      ? {}
      : { attachments: [...attachments] }),
    ...volumeFields(facts),
    conditions: listConditions(facts, { phase, attachments: [...(attachments ?? [])] }, now),
  };
}
