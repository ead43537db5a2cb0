// SPDX-License-Identifier: Apache-2.0
// Reconciliation of a VMI. Creates the launcher pod, sets its networks, and reports its attachments.
import {
  type VirtualMachineInstance,
  isVmiFinal,
  names,
  networkConfigOf,
  readOvercommitConfig,
  PODS,
  readStorageConfig,
  logsSerialConsoles,
  usesEmulation,
  type NetworkConfig,
  type ResourceType,
  PERSISTENT_VOLUME_CLAIMS,
  VIRTUAL_MACHINE_INSTANCES,
  type VmiStatus,
} from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import type { KubeObject, PersistentVolumeClaim, Pod } from "@patchbay/api/kubernetes";
import {
  isIncomplete,
  listClaimNames,
  type VmiFacts,
  listNetworkNames,
  hasMissingImage,
  buildImageVolumeTestPod,
  type VmiAction,
  planVmi,
  readPodNetworkElements,
  withoutPrimaryRequest,
} from "@patchbay/core/vm";
import {
  isNodeUnresponsive,
  findUnavailableNetworks,
  findNodeLoss,
  type Definitions,
  type UnavailableNetworks,
  type NodeLoss,
  offeredResources,
} from "@patchbay/core/node";
import {
  hasLauncherLabel,
  isLauncherOf,
  ownerPodName,
  isControlledBy,
} from "@patchbay/core/migration";
import type { Cache, ObjectKey, Patch } from "@patchbay/core/interfaces";
import type { Deps } from "../../deps.ts";
import {
  parseKey,
  keyOf,
  printKey,
  printTime,
  after,
  done,
  earliest,
  type Next,
  runObjectSteps,
  type ObjectStepsResult,
  rethrowFirst,
} from "@patchbay/kube";
import { AppError, isAppError } from "@patchbay/base";
import { createIpamClaim, listPrimaryDefinitions, observeIpamClaims } from "../ipam-claims.ts";
import {
  pointerToken,
  versionTest,
  newSyncError,
  buildVmiStatus,
  statusPatch,
  type ControllerVmiStatus,
} from "@patchbay/core/status";
import {
  findMacChanges,
  findReportWaitMs,
  listResourceClaimNames,
  MAC_CHANGED,
  networksOf,
  readClaimedNics,
  toNicsPatch,
  findNewAddressChange,
} from "@patchbay/core/nics";

export function findClaims(
  vmi: VirtualMachineInstance,
  claims: Pick<Cache<PersistentVolumeClaim>, "find">,
): VmiFacts["storage"]["claims"] {
  const { namespace = "" } = vmi.metadata;
  const found = listClaimNames(vmi).flatMap((name) => {
    const claim = claims.find({ namespace, name });
    return claim === undefined ? [] : [[name, claim] as const];
  });
  return new Map(found);
}

/** Reads the object if the cache lacks annotations that other objects inherit. Returns undefined if it no longer exists. */
export async function findWhole<T extends KubeObject>(
  type: ResourceType<T>,
  object: T,
  { store }: Pick<Deps, "store">,
): Promise<T | undefined> {
  return isIncomplete(object) ? store.find(type, keyOf(object)) : object;
}

/** Returns why the pod's node counts as lost; undefined if the node responds or does not exist. */
export function findLoss(
  pod: Pod | undefined,
  { nodes }: Pick<Deps, "nodes">,
): NodeLoss | undefined {
  const name = pod?.spec.nodeName;
  return name === undefined ? undefined : findNodeLoss(nodes.find({ name }));
}

/** Returns the networks for which the pod's node cannot create NICs. Excludes binding plugins' networks, which virt-handler reports. */
export function findAbsences(
  { vmi, pod }: { readonly vmi: VirtualMachineInstance; readonly pod: Pod | undefined },
  definitions: Definitions,
  { nodes }: Pick<Deps, "nodes">,
): UnavailableNetworks {
  const node = pod?.spec.nodeName;
  const networkNames = listNetworkNames(vmi, {});
  const ownDefinitions = new Map(
    [...definitions].filter(([network]) => networkNames.includes(network)),
  );
  if (node === undefined || findUnavailableNetworks(node, ownDefinitions, []).size === 0)
    return new Map();
  const otherNodes = nodes.list().filter((each) => !isNodeUnresponsive(each));
  return findUnavailableNetworks(
    node,
    ownDefinitions,
    otherNodes.map(({ metadata }) => metadata.name).toSorted(),
  );
}

function toLauncherKey(vmi: VirtualMachineInstance): ObjectKey {
  return {
    namespace: vmi.metadata.namespace ?? "",
    name: ownerPodName(vmi),
  };
}

/** Returns whether a missing launcher pod would mean that the guest has ended or that the VMI can be removed. */
function endsWithoutPod(vmi: VirtualMachineInstance): boolean {
  if (vmi.metadata.deletionTimestamp !== undefined) {
    return vmi.metadata.finalizers?.includes(names.VMI_FINALIZER) === true;
  }
  return vmi.status?.activePods !== undefined && !isVmiFinal(vmi);
}

/** Reads a launcher pod. Returns undefined for a pod without the launcher label, which the cache lacks too. */
export async function findStoredLauncher(
  key: ObjectKey,
  { store }: Pick<Deps, "store">,
): Promise<Pod | undefined> {
  const pod = await store.find(PODS, key);
  return pod !== undefined && hasLauncherLabel(pod) ? pod : undefined;
}

/** Finds the VMI's launcher pod. Before a missing pod counts as the guest's end, reads the API server, because the cache may be stale. */
async function findLauncher(vmi: VirtualMachineInstance, deps: Deps): Promise<Pod | undefined> {
  const key = toLauncherKey(vmi);
  const isOwn = (pod: Pod | undefined): pod is Pod => pod !== undefined && isLauncherOf(pod, vmi);
  const cached = deps.pods.find(key);
  if (isOwn(cached)) return deps.mutationCache.newest(cached);
  const storedPod = endsWithoutPod(vmi) ? await findStoredLauncher(key, deps) : undefined;
  return isOwn(storedPod) ? storedPod : undefined;
}

async function withImageVolumes(facts: VmiFacts, deps: Deps): Promise<VmiFacts> {
  const { pod } = facts;
  if (pod !== undefined && hasMissingImage(pod)) deps.imageVolumes.reportLost();
  const testPod = buildImageVolumeTestPod(facts);
  if (testPod === undefined) return facts;
  const supportsImageVolumes = await deps.imageVolumes.areSupported(testPod);
  return { ...facts, settings: { ...facts.settings, supportsImageVolumes } };
}

function findDefinitions(
  vmi: VirtualMachineInstance,
  { bindings }: NetworkConfig,
  deps: Deps,
): Definitions {
  const found = listNetworkNames(vmi, bindings).flatMap((network) => {
    const nad = deps.nads.find(parseKey(network));
    return nad === undefined ? [] : [[network, nad] as const];
  });
  const { namespace = "" } = vmi.metadata;
  return new Map([...found, ...listPrimaryDefinitions([vmi.spec], namespace, deps)]);
}

/** Observes the devices of the launcher's resource claims. Watches a claim until its device is attached to the running guest. */
function observeClaimedNics(
  vmi: VirtualMachineInstance,
  pod: Pod | undefined,
  { resourceClaims, clock }: Deps,
): Pick<VmiFacts, "claimedNics"> {
  const isClaimed = networksOf(vmi.spec).some(({ resourceClaim }) => resourceClaim !== undefined);
  const { namespace = "" } = vmi.metadata;
  const claimNames = pod === undefined || !isClaimed ? [] : listResourceClaimNames(vmi, pod);
  const user = printKey(keyOf(vmi));
  resourceClaims.setUsed(
    user,
    claimNames.map((name) => ({ namespace, name })),
  );
  const found = resourceClaims.list(user);
  if (pod === undefined || !isClaimed || found === undefined) return {};
  const claims = new Map(found.map((claim) => [claim.metadata.name, claim]));
  return { claimedNics: readClaimedNics(vmi, pod, { claims, nowMs: clock.now() }) };
}

export async function observeVmi(key: string, deps: Deps): Promise<VmiFacts | undefined> {
  const cached = deps.vmis.find(parseKey(key));
  if (cached === undefined) return undefined;
  const newest = deps.mutationCache.newest(cached);
  const pod = await findLauncher(newest, deps);
  const vmi = pod === undefined ? await findWhole(VIRTUAL_MACHINE_INSTANCES, newest, deps) : newest;
  if (vmi === undefined) return undefined;
  const kubevirt = deps.kubevirts.list()[0];
  const nodes = deps.nodes.list();
  const settings = {
    image: deps.launcherImage,
    sidecarShimImage: deps.sidecarShimImage,
    useEmulation: usesEmulation(kubevirt),
    logsConsoles: logsSerialConsoles(kubevirt),
    supportsImageVolumes: false,
    overcommit: readOvercommitConfig(kubevirt),
    ...(nodes.length > 0 && { offeredResources: offeredResources(nodes) }),
  };
  const storage = { claims: findClaims(vmi, deps.claims), config: readStorageConfig(kubevirt) };
  const network = networkConfigOf(kubevirt);
  const nodeLoss = findLoss(pod, deps);
  const loss = nodeLoss === undefined ? {} : { nodeLoss };
  const definitions = findDefinitions(vmi, network, deps);
  const absences = findAbsences({ vmi, pod }, definitions, deps);
  const claims = await observeIpamClaims(vmi, definitions, deps);
  const claimed = observeClaimedNics(vmi, pod, deps);
  const facts = { network, storage, definitions, absences, ...claims, ...claimed };
  return withImageVolumes({ vmi, pod, settings, ...facts, ...loss }, deps);
}

/** Checks whether the pod on the API server is missing or the VMI's launcher. */
async function isOwnPod(vmi: VirtualMachineInstance, pod: Pod, deps: Deps): Promise<boolean> {
  const existing = await deps.store.find(PODS, keyOf(pod));
  return existing === undefined || (isControlledBy(existing, vmi) && hasLauncherLabel(existing));
}

/** Omits the request for primary addresses if ipam-extensions rejects it. Source: ipam-extensions validateDefaultMultusNetworkRequest. */
async function createPod(pod: Pod, { store }: Deps): Promise<Pod> {
  const bare = withoutPrimaryRequest(pod);
  try {
    return await store.create(PODS, pod);
  } catch (error) {
    const isDenied =
      isAppError(error, "KUBE_FORBIDDEN") &&
      error.message.includes(names.DEFAULT_NETWORK_ANNOTATION);
    if (!isDenied || bare === pod) throw error;
    return await store.create(PODS, bare);
  }
}

/** Creates the pod. @throws AppError with CONTROLLER_LAUNCHER_NAME_TAKEN if another owner has a pod with this name */
export async function createLauncher(
  pod: Pod,
  vmi: VirtualMachineInstance,
  deps: Deps,
): Promise<void> {
  const object = printKey(keyOf(pod));
  try {
    deps.mutationCache.note(await createPod(pod, deps));
    deps.log.info("created launcher pod", { pod: object });
  } catch (error) {
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
    if (!(await isOwnPod(vmi, pod, deps)))
      throw new AppError("CONTROLLER_LAUNCHER_NAME_TAKEN", { object });
  }
}

/** Writes an annotation of the pod. The patch fails if the old value has changed, or if there was no old value and the pod has changed. */
export async function patchAnnotation(
  pod: Pod,
  { annotation, value }: { readonly annotation: string; readonly value: string },
  deps: Deps,
): Promise<void> {
  const path = `/metadata/annotations/${pointerToken(annotation)}`;
  const from = pod.metadata.annotations?.[annotation];
  const operations: readonly JsonPatchOperation[] = [
    from === undefined ? versionTest(pod) : { op: "test", path, value: from },
    { op: "add", path, value },
  ];
  deps.mutationCache.note(await deps.store.patch(PODS, keyOf(pod), { type: "json", operations }));
}

async function patchVmi(vmi: VirtualMachineInstance, patch: Patch, deps: Deps): Promise<void> {
  deps.mutationCache.note(await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch));
}

function buildFinalizersPatch(vmi: VirtualMachineInstance, isPresent: boolean): Patch {
  const currentFinalizers = vmi.metadata.finalizers ?? [];
  const otherFinalizers = currentFinalizers.filter(
    (finalizer) => finalizer !== names.VMI_FINALIZER,
  );
  const path = "/metadata/finalizers";
  return {
    type: "json",
    operations: [
      currentFinalizers.length === 0
        ? versionTest(vmi)
        : { op: "test", path, value: currentFinalizers },
      {
        op: "add",
        path,
        value: isPresent ? [...otherFinalizers, names.VMI_FINALIZER] : otherFinalizers,
      },
    ],
  };
}

async function createClaim(claim: PersistentVolumeClaim, deps: Deps): Promise<void> {
  try {
    await deps.store.create(PERSISTENT_VOLUME_CLAIMS, claim);
    deps.log.info("created claim", { claim: printKey(keyOf(claim)) });
  } catch (error) {
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
  }
}

async function patchPodNetworks({ pod }: VmiFacts, networks: string, deps: Deps): Promise<void> {
  if (pod === undefined) return;
  await patchAnnotation(pod, { annotation: names.NETWORKS_ANNOTATION, value: networks }, deps);
  deps.log.info("changed the pod's networks", { pod: printKey(keyOf(pod)), networks });
}

/** Writes the network-info annotation to the latest version of the pod, because an earlier step may have changed the pod's annotations. */
async function patchPodNetworkInfo(
  { pod }: VmiFacts,
  networkInfo: string,
  deps: Deps,
): Promise<void> {
  if (pod === undefined) return;
  const newest = deps.mutationCache.newest(pod);
  await patchAnnotation(
    newest,
    { annotation: names.NETWORK_INFO_ANNOTATION, value: networkInfo },
    deps,
  );
}

async function performOne(action: VmiAction, facts: VmiFacts, deps: Deps): Promise<void> {
  const { vmi } = facts;
  switch (action.kind) {
    case "addFinalizer":
      await patchVmi(vmi, buildFinalizersPatch(vmi, true), deps);
      return;
    case "removeFinalizer":
      await patchVmi(vmi, buildFinalizersPatch(vmi, false), deps);
      return;
    case "createClaim":
      await createClaim(action.claim, deps);
      return;
    case "createIpamClaim":
      await createIpamClaim(action.claim, deps);
      return;
    case "createPod":
      await createLauncher(action.pod, vmi, deps);
      return;
    case "deletePod":
      await deps.store.delete(
        PODS,
        { ...keyOf(vmi), name: action.name },
        { uid: action.uid, gracePeriodSeconds: action.graceSeconds },
      );
      return;
    case "labelNode": {
      const labels = { [names.NODE_NAME_LABEL]: action.node };
      await patchVmi(vmi, { type: "merge", fields: { metadata: { labels } } }, deps);
      return;
    }
    case "patchPodNetworks":
      await patchPodNetworks(facts, action.value, deps);
      return;
    case "patchPodNetworkInfo":
      await patchPodNetworkInfo(facts, action.value, deps);
      return;
    case "patchVmiNics": {
      const place = { object: vmi, base: "/spec", spec: vmi.spec };
      await patchVmi(vmi, { type: "json", operations: toNicsPatch(place, action.to) }, deps);
    }
  }
}

/** Runs the steps. A new generation of the VMI resets the backoff of failed steps, because the new spec may have fixed the cause. */
function actVmi(
  plan: readonly VmiAction[],
  facts: VmiFacts,
  deps: Deps,
): Promise<ObjectStepsResult> {
  const perform = (action: VmiAction): Promise<void> => performOne(action, facts, deps);
  const inputs = String(facts.vmi.metadata.generation);
  return runObjectSteps({ object: facts.vmi, plan, inputs, perform }, deps);
}

/** Builds JSON patch tests for status fields that virt-handler also writes. */
function buildPreconditions(current: VmiStatus | undefined): readonly JsonPatchOperation[] {
  return (["phase", "interfaces"] as const)
    .filter((field) => current?.[field] !== undefined)
    .map((field) => ({ op: "test", path: `/status/${field}`, value: current?.[field] }));
}

/** Sets a missing `attachments` to undefined, because statusPatch removes only fields that are present with the value undefined. */
function toStatusFields(status: ControllerVmiStatus): object {
  return { ...status, attachments: status.attachments };
}

/** Writes the status if it changed. Records events for changed addresses, for changed MACs, and for new sync errors of virt-controller. */
async function reportVmi(
  facts: VmiFacts,
  { failures }: ObjectStepsResult,
  deps: Deps,
): Promise<void> {
  const vmi = deps.mutationCache.newest(facts.vmi);
  const status = buildVmiStatus({ ...facts, failures }, printTime(deps.clock.now()));
  const changes = statusPatch(vmi, toStatusFields(status));
  if (changes.length === 0) return;
  const patch = {
    type: "json",
    operations: [...buildPreconditions(vmi.status), ...changes],
  } as const;
  const options = { subresource: "status" } as const;
  deps.mutationCache.note(
    await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch, options),
  );
  const syncError = newSyncError(vmi.status?.conditions, status.conditions);
  // Records no events for errors that virt-handler reported, because virt-handler records these events.
  const isNewError =
    syncError !== undefined && syncError.reason !== vmi.status?.blockedReason?.reason;
  if (isNewError) deps.events.record(vmi, { type: "Warning", ...syncError });
  const change = findNewAddressChange(vmi.status?.conditions, status.conditions);
  if (change !== undefined) deps.events.record(vmi, { type: "Warning", ...change });
  const elements = facts.pod === undefined ? [] : readPodNetworkElements(facts.pod);
  for (const message of findMacChanges(vmi, status.attachments ?? [], elements))
    deps.events.record(vmi, { type: "Normal", reason: MAC_CHANGED, message });
}

export async function reconcileVmi(key: string, deps: Deps): Promise<Next> {
  const facts = await observeVmi(key, deps);
  if (facts === undefined) {
    deps.resourceClaims.setUsed(key, []);
    return done();
  }
  const plan = planVmi(facts);
  const performed = await actVmi(plan, facts, deps);
  const hasFinalizer = facts.vmi.metadata.finalizers?.includes(names.VMI_FINALIZER) === true;
  // After the removal of its finalizer, the VMI may no longer exist, so its status is not written.
  const isReleased = plan.some(({ kind }) => kind === "removeFinalizer");
  if (hasFinalizer && !isReleased) await reportVmi(facts, performed, deps);
  rethrowFirst(performed);
  const { claimedNics, pod } = facts;
  const waitMs = claimedNics && findReportWaitMs(claimedNics, pod, deps.clock.now());
  const nextMs = earliest([performed.retryInMs, waitMs]);
  return nextMs === undefined ? done() : after(nextMs);
}
