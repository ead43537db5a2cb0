// SPDX-License-Identifier: Apache-2.0
// Reads the facts about a pod's attachments: requested networks, journal rows and sandbox.
import { names, VIRTUAL_MACHINE_INSTANCES, type VirtualMachineInstance, PODS } from "@patchbay/api";
import {
  type AttachmentError,
  NETWORKS_MAX,
  parseNetworks,
  parseNetworkStatus,
  type NetworksAnnotation,
} from "@patchbay/api/annotations";
import { type Pod, isPodFinished } from "@patchbay/api/kubernetes";
import { AppError, isAppError } from "@patchbay/base";
import {
  networkNameOf,
  networksOf,
  listDefinitionChanges,
  listInterfaces,
  isOwnPodInterfaceName,
  type AttachmentFacts,
  type ForeignAttachment,
} from "@patchbay/core/nics";
import { parseKey } from "@patchbay/kube";
import type { ObjectKey, Sandbox } from "@patchbay/core/interfaces";
import type { Deps } from "../../deps.ts";
import { reasonOf } from "@patchbay/core/reasons";
import type { JournalRow } from "@patchbay/cni";
import { isUnusableDefinition, readDefinition } from "./attachment/definition.ts";
import { buildStatusEntries, selectRows, toOwned, type OwnedRow } from "./attachment/owned-row.ts";

/** Namespace whose networks every pod may use. Source: Multus, default of `globalNamespaces`. */
const SHARED_NAMESPACE = "default";

/** Pattern of the command of KubeVirt's launchers. Source: KubeVirt, pkg/virt-controller/services/template.go. */
const KUBEVIRT_LAUNCHER = /(?:^|\/)virt-launcher(?:-monitor)?$/;

/** Returns whether the pod is a launcher of KubeVirt. Trusts the pod's spec, because a forged launcher affects only itself. */
function isKubeVirtLauncher(pod: Pod | undefined): boolean {
  if (pod?.metadata.labels?.[names.KUBEVIRT_LABEL] !== names.LAUNCHER_LABEL_VALUE) return false;
  return pod.spec.containers.some(
    ({ name, command = [] }) =>
      name === names.LAUNCHER_CONTAINER && KUBEVIRT_LAUNCHER.test(command[0] ?? ""),
  );
}

/** Finds the pod's VMI on the API server. Compares the UID, because a new VMI may have the same name. */
export async function findVmiOf(
  pod: Pod | undefined,
  deps: Pick<Deps, "store">,
): Promise<VirtualMachineInstance | undefined> {
  const owner = pod?.metadata.ownerReferences?.find(({ controller }) => controller === true);
  const isVmi =
    owner?.kind === VIRTUAL_MACHINE_INSTANCES.kind &&
    owner.apiVersion.split("/", 1)[0] === names.KUBEVIRT_GROUP;
  if (pod === undefined || !isVmi) return undefined;
  const { namespace = "" } = pod.metadata;
  const vmi = await findVmi({ namespace, name: owner.name }, deps);
  return vmi?.metadata.uid === owner.uid ? vmi : undefined;
}

async function findVmi(
  key: ObjectKey,
  deps: Pick<Deps, "store">,
): Promise<VirtualMachineInstance | undefined> {
  try {
    return await deps.store.find(VIRTUAL_MACHINE_INSTANCES, key);
  } catch (error) {
    if (isAppError(error, "KUBE_NOT_FOUND")) return undefined; // The cluster does not serve the kind.
    throw error;
  }
}

interface PodOfNamespace {
  readonly pod?: Pod;
  readonly attachments: { readonly namespace: string };
}

/** Returns whether namespace isolation permits the network. A launcher may also use the networks to which its VMI refers. */
export async function mayUse(network: string, facts: PodOfNamespace, deps: Deps): Promise<boolean> {
  const { namespace } = facts.attachments;
  const owner = parseKey(network).namespace;
  if (!deps.isIsolated || owner === namespace || owner === SHARED_NAMESPACE) return true;
  const vmi = await findVmiOf(facts.pod, deps);
  const vmiNetworks = vmi === undefined ? [] : networksOf(vmi.spec);
  return vmiNetworks.some((candidate) => networkNameOf(candidate, namespace) === network);
}

/** @throws AppError with CNI_NETWORK_FORBIDDEN */
export async function assertMayUse(
  network: string,
  facts: PodOfNamespace,
  deps: Deps,
): Promise<void> {
  if (await mayUse(network, facts, deps)) return;
  const { namespace } = facts.attachments;
  throw new AppError("CNI_NETWORK_FORBIDDEN", { network, namespace });
}

/** Annotation of a mirror pod with the UID of its static pod. Source: kubelet types, ConfigMirrorAnnotationKey. */
const MIRROR_ANNOTATION = "kubernetes.io/config.mirror";

/** Returns whether the pod or its static pod has the UID. Callers must also compare the names, because the annotation may be forged. */
export function isPodOf(pod: Pod | undefined, uid: string): pod is Pod {
  if (pod === undefined) return false;
  return pod.metadata.uid === uid || pod.metadata.annotations?.[MIRROR_ANNOTATION] === uid;
}

interface RuntimeUnavailable {
  readonly error: unknown;
  /** Report of the error. If the step fails several times in the same way, all these errors share the first one's report. */
  readonly report: AttachmentError;
}

/** Returns the error with its report if the error is RuntimeUnavailable. Records an event for the pod if the report is new. */
function toRuntimeUnavailable(
  { pod, uid, error }: { pod: Pod | undefined; uid: string; error: unknown },
  deps: Deps,
): RuntimeUnavailable | undefined {
  if (reasonOf(error) !== "RuntimeUnavailable") return undefined;
  const step = { scope: uid, name: "sandbox", inputs: "" };
  const previousReport = deps.failures.lastReport(step);
  const { summary: report } = deps.failures.explain(step, error);
  if (pod !== undefined && report !== previousReport) {
    deps.events.record(pod, { type: "Warning", ...report, about: "sandbox" });
  }
  return { error, report };
}

/** Returns the pod's sandbox. Without a sandbox, returns `missingSandbox` if the pod should have one. */
async function findSandbox(
  key: string,
  uid: string,
  { pod, hasPodEnded, rows, deps }: LocationContext,
): Promise<PodLocation> {
  const sandbox = await deps.sandboxes.find(uid);
  // Compares the pod's name as well, because a forged annotation can name the UID of another pod.
  const isOwn = sandbox !== undefined && `${sandbox.pod.namespace}/${sandbox.pod.name}` === key;
  if (isOwn) return { sandbox };
  if (hasPodEnded || pod?.spec.hostNetwork === true) return {};
  // Before the pod is Running, no retry is needed, because the pod's change to this phase triggers the next pass.
  const error =
    pod?.status?.phase === "Running" ? new AppError("SANDBOX_NOT_FOUND", { pod: key }) : undefined;
  return { missingSandbox: { error, isReleasable: await hasOnlyFormerRows(rows, deps) } };
}

/** Returns whether rows exist and all rows belong to sandboxes that have ended. */
async function hasOnlyFormerRows(
  rows: readonly JournalRow[],
  { sandboxes, bootId, readDefaultNetwork }: Deps,
): Promise<boolean> {
  const ids = rows.filter((row) => row.bootId === bootId).map(({ request }) => request.containerId);
  for (const id of new Set(ids)) {
    // If net-agent serves the runtime's CNI calls, the rows may belong to a new sandbox that the runtime does not list yet.
    if (readDefaultNetwork !== undefined || (await sandboxes.isReady(id))) return false;
  }
  return rows.length > 0;
}

interface MissingSandbox {
  /** Error that triggers another pass. Set if the pod's phase is Running, although the pod has no sandbox. */
  readonly error: AppError | undefined;
  /** Whether the attachments in the journal all belong to former sandboxes. False if the journal contains none. */
  readonly isReleasable: boolean;
}

export interface PodFacts {
  /** Pod as NAMESPACE/NAME. */
  readonly key: string;
  readonly uid: string;
  readonly pod?: Pod;
  readonly sandbox?: Sandbox;
  /** Set if the container runtime does not answer. If it is set, the pass attaches and detaches nothing. */
  readonly runtimeUnavailable?: RuntimeUnavailable;
  /** Set if the pod is alive without a sandbox. If it is set, the pass only releases attachments of the pod's former sandboxes. */
  readonly missingSandbox?: MissingSandbox;
  readonly attachments: AttachmentFacts<OwnedRow>;
  /** Whether the pod is deleted, but the runtime has not yet detached the pod's default network. */
  readonly isAwaitingRuntimeDetach?: boolean;
  /** Whether the runtime is creating the sandbox. Until the sandbox is created, the pod's status does not describe it. */
  readonly isNewSandbox?: true;
}

const NO_NETWORKS: NetworksAnnotation = { ok: true, elements: [] };

/** Returns `ended` if no container can use a NIC any longer, `ending` during a deletion, and otherwise `alive`. */
function findPodStage(pod: Pod | undefined): AttachmentFacts<OwnedRow>["podState"] {
  if (pod === undefined || isPodFinished(pod)) return "ended";
  if (pod.metadata.deletionTimestamp === undefined) return "alive";
  const containers = pod.status?.containerStatuses ?? [];
  const ended = containers.every((container) => container.state.terminated !== undefined);
  return containers.length > 0 && ended ? "ended" : "ending";
}

function readNetworks(pod: Pod | undefined): NetworksAnnotation {
  if (pod === undefined) return NO_NETWORKS;
  return parseNetworks(pod.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
}

function readNetworkFacts(
  pod: Pod | undefined,
): Pick<AttachmentFacts<OwnedRow>, "networks" | "isHostNetwork" | "isKubeVirtLauncher"> {
  return {
    networks: readNetworks(pod),
    isHostNetwork: pod?.spec.hostNetwork === true,
    ...(isKubeVirtLauncher(pod) && { isKubeVirtLauncher: true }),
  };
}

/** Maximum number of entries in a status annotation. A longer annotation is ignored, because no container runtime writes so many. */
const STATUS_ENTRIES_MAX = 2 * NETWORKS_MAX;

function listForeign(
  pod: Pod | undefined,
  rows: readonly JournalRow[],
): readonly ForeignAttachment[] {
  const ownInterfaces = new Set(
    rows.flatMap((row) => {
      const { interfaceName } = row.request;
      return listInterfaces({ interfaceName, entries: buildStatusEntries(row) });
    }),
  );
  const entries = parseNetworkStatus(pod?.metadata.annotations?.[names.NETWORK_STATUS_ANNOTATION]);
  if (entries.length > STATUS_ENTRIES_MAX) return [];
  return entries.flatMap(({ name: network, interface: interfaceName, default: isDefault }) => {
    if (interfaceName === undefined || ownInterfaces.has(interfaceName)) return [];
    return [{ network, interfaceName, ...(isDefault === true && { isDefault }) }];
  });
}

function needsPass(pod: Pod, rows: readonly JournalRow[]): boolean {
  const networks = readNetworks(pod);
  const errors = pod.metadata.annotations?.[names.ATTACHMENT_ERRORS_ANNOTATION];
  if (!networks.ok || networks.elements.length > 0 || errors !== undefined) return true;
  return (
    rows.length > 0 ||
    listForeign(pod, rows).some(({ interfaceName }) => isOwnPodInterfaceName(interfaceName))
  );
}

/** Finds the pod with the UID. Reads the API server if the cache lacks the pod, because the cache may be stale. */
export async function findByUid(key: string, uid: string, deps: Deps): Promise<Pod | undefined> {
  const cached = deps.pods.find(parseKey(key));
  if (isPodOf(cached, uid)) return cached;
  const live = await deps.store.find(PODS, parseKey(key));
  return isPodOf(live, uid) ? live : undefined;
}

/** Returns the uids of the pods to reconcile: first the current pod, then former pods in the journal. */
export function listUids(key: string, deps: Deps): readonly string[] {
  const pod = deps.pods.find(parseKey(key));
  const trackedPods = deps.trackedPods.listUids(key);
  const current = trackedPods.find((uid) => isPodOf(pod, uid)) ?? pod?.metadata.uid;
  const formerUids = trackedPods.filter((uid) => uid !== current);
  return current === undefined ? formerUids : [current, ...formerUids];
}

type PodLocation = Pick<PodFacts, "sandbox" | "runtimeUnavailable" | "missingSandbox">;

interface LocationContext {
  readonly pod: Pod | undefined;
  readonly hasPodEnded: boolean;
  readonly rows: readonly JournalRow[];
  readonly deps: Deps;
}

async function findLocation(
  key: string,
  uid: string,
  context: LocationContext,
): Promise<PodLocation> {
  try {
    return await findSandbox(key, uid, context);
  } catch (error) {
    const runtimeUnavailable = toRuntimeUnavailable({ pod: context.pod, uid, error }, context.deps);
    if (runtimeUnavailable === undefined) throw error;
    return { runtimeUnavailable };
  }
}

/** Adds the changes in the network's definition since ADD. Users may edit a definition while pods use it. */
async function withDefinitionChanges(owned: OwnedRow, deps: Deps): Promise<OwnedRow> {
  const { row, network, state, isAdopted } = owned;
  // Adopted attachments are not compared, because their rows may contain a newer definition than the runtime's ADD used.
  if (state !== "attached" || isAdopted) return owned;
  try {
    const current = await readDefinition(network, deps);
    const definitionChanges = listDefinitionChanges(row.request.config, current);
    return definitionChanges.length === 0 ? owned : { ...owned, definitionChanges };
  } catch (error) {
    if (isUnusableDefinition(error)) return owned;
    throw error;
  }
}

export async function observe(key: string, uid: string, deps: Deps): Promise<PodFacts | undefined> {
  const pod = await findByUid(key, uid, deps);
  const rows = await deps.journal.list(uid);
  const secondaryRows = selectRows(rows, false);
  if (pod !== undefined && !needsPass(pod, secondaryRows)) return undefined;
  const podState = findPodStage(pod);
  const hasPodEnded = podState === "ended";
  const location = await findLocation(key, uid, { pod, hasPodEnded, rows: secondaryRows, deps });
  const { missingSandbox } = location;
  if (missingSandbox?.isReleasable === false) {
    if (missingSandbox.error !== undefined) throw missingSandbox.error;
    return undefined;
  }
  const isGone = pod === undefined;
  const isNothingLeft =
    isGone && location.sandbox === undefined && location.runtimeUnavailable === undefined;
  const selected = selectRows(rows, isNothingLeft);
  const owned = selected.map((row) => toOwned(row, { ...location, bootId: deps.bootId }));
  return {
    key,
    uid,
    ...(pod === undefined ? {} : { pod }),
    ...location,
    isAwaitingRuntimeDetach: isGone && selected.length < rows.length,
    attachments: {
      namespace: parseKey(key).namespace ?? "",
      ...readNetworkFacts(pod),
      owned: await Promise.all(owned.map((each) => withDefinitionChanges(each, deps))),
      foreign: listForeign(pod, rows),
      mode: deps.mode,
      podState: missingSandbox === undefined ? podState : "ending",
    },
  };
}
