// SPDX-License-Identifier: Apache-2.0
// virt-controller's actions for one VMI: create its launcher pod, update the pod's networks, and delete the pod.
import {
  isVmiFinal,
  names,
  type IpamClaim,
  type NetworkConfig,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { parseNetworks, printNetworks, type NetworkSelection } from "@patchbay/api/annotations";
import {
  findController,
  isPodFinished,
  type PersistentVolumeClaim,
  type Pod,
} from "@patchbay/api/kubernetes";
import { isEqual } from "@patchbay/base";
import type { Definitions, UnavailableNetworks } from "../node/definitions.ts";
import type { NodeLoss } from "../node/node-loss.ts";
import { openMigration } from "../migration/owner.ts";
import { planVmiTopology } from "../nics/pcie/topology.ts";
import { nicsOf, type Nics } from "../nics/nics.ts";
import { hasRunningHook } from "../hooks/hook-sidecars.ts";
import { hasImageVolume, hasMissingImage } from "./pod/image-files.ts";
import {
  computeEndGraceSeconds,
  buildLauncherPod,
  type LauncherRequest,
  type LauncherSettings,
} from "./pod/launcher-pod.ts";
import { printNetworkInfo } from "./pod/network-info.ts";
import { buildStateClaim } from "./pod/parts.ts";
import { planPodNetworks, type NetworksOwner } from "./pod/pod-networks.ts";
import {
  isAwaited,
  resolveIpamClaims,
  type IpamClaimFacts,
  type IpamClaimState,
} from "./ipam-claims.ts";
import { withoutPrimaryRequest } from "./primary-network.ts";
import type { ClaimedNics } from "../nics/claimed-nics.ts";
import { planOwnNics } from "../nics/spec-plan.ts";
import { findVmiStartProblems } from "./start-problems.ts";
import { findStorageFault, type StorageFacts } from "./storage.ts";

export type VmiAction =
  | { readonly kind: "addFinalizer" }
  | { readonly kind: "removeFinalizer" }
  | { readonly kind: "createClaim"; readonly claim: PersistentVolumeClaim }
  | { readonly kind: "createIpamClaim"; readonly claim: IpamClaim }
  | { readonly kind: "createPod"; readonly pod: Pod }
  | {
      readonly kind: "deletePod";
      readonly name: string;
      readonly uid: string;
      readonly graceSeconds: number;
    }
  | { readonly kind: "labelNode"; readonly node: string }
  | { readonly kind: "patchPodNetworks"; readonly value: string }
  | { readonly kind: "patchPodNetworkInfo"; readonly value: string }
  | { readonly kind: "patchVmiNics"; readonly to: Nics };

export interface VmiFacts {
  readonly vmi: VirtualMachineInstance;
  readonly pod: Pod | undefined;
  readonly settings: LauncherSettings;
  readonly network: NetworkConfig;
  readonly storage: StorageFacts;
  readonly definitions: Definitions;
  readonly absences: UnavailableNetworks;
  /** Set only if a network of the VMI offers persistent addresses. */
  readonly ipamClaims?: IpamClaimFacts;
  /** NICs that resource claims allocated. Unset if no network of the VMI uses a claim. */
  readonly claimedNics?: ClaimedNics;
  readonly nodeLoss?: NodeLoss;
}

export function hasVm(vmi: VirtualMachineInstance): boolean {
  return findController(vmi) !== undefined;
}

function toDeletion(vmi: VirtualMachineInstance, { metadata }: Pod): VmiAction {
  const graceSeconds = computeEndGraceSeconds(vmi);
  return { kind: "deletePod", name: metadata.name, uid: metadata.uid ?? "", graceSeconds };
}

/** Returns whether the pod is being deleted with at most the guest's grace period, which a later stop request may have shortened. */
function isDeletedInTime(vmi: VirtualMachineInstance, { metadata }: Pod): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds = 0 } = metadata;
  return (
    deletionTimestamp !== undefined && deletionGracePeriodSeconds <= computeEndGraceSeconds(vmi)
  );
}

function planEnd({ vmi, pod }: VmiFacts): readonly VmiAction[] {
  if (pod === undefined) {
    return vmi.metadata.finalizers?.includes(names.VMI_FINALIZER) === true
      ? [{ kind: "removeFinalizer" }]
      : [];
  }
  return isDeletedInTime(vmi, pod) ? [] : [toDeletion(vmi, pod)];
}

/** Returns the elements of the network selection annotation. Returns an empty list for a malformed annotation, which is then replaced. */
export function readPodNetworkElements(pod: Pod): readonly NetworkSelection[] {
  const annotation = parseNetworks(pod.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
  return annotation.ok ? annotation.elements : [];
}

function planNetworks(owner: NetworksOwner, pod: Pod): readonly VmiAction[] {
  if (isPodFinished(pod) || pod.metadata.deletionTimestamp !== undefined) return [];
  const currentElements = readPodNetworkElements(pod);
  const elements = planPodNetworks(owner, currentElements);
  if (isEqual(currentElements, elements)) return [];
  return [{ kind: "patchPodNetworks", value: printNetworks(elements) }];
}

function planNetworkInfo(owner: NetworksOwner, pod: Pod): readonly VmiAction[] {
  if (isPodFinished(pod) || pod.metadata.deletionTimestamp !== undefined) return [];
  const annotation = printNetworkInfo(owner, pod);
  const isCurrent = pod.metadata.annotations?.[names.NETWORK_INFO_ANNOTATION] === annotation;
  return annotation === undefined || isCurrent
    ? []
    : [{ kind: "patchPodNetworkInfo", value: annotation }];
}

function planNics(vmi: VirtualMachineInstance): readonly VmiAction[] {
  if (hasVm(vmi)) return [];
  const currentNics = nicsOf(vmi.spec);
  const plannedNics = planOwnNics(vmi);
  return isEqual(currentNics, plannedNics) ? [] : [{ kind: "patchVmiNics", to: plannedNics }];
}

function planLabel(vmi: VirtualMachineInstance, pod: Pod): readonly VmiAction[] {
  const node = pod.spec.nodeName;
  return node === undefined || vmi.metadata.labels?.[names.NODE_NAME_LABEL] === node
    ? []
    : [{ kind: "labelNode", node }];
}

export function buildLauncherRequest(facts: VmiFacts): LauncherRequest {
  const { vmi, settings, network, storage, definitions } = facts;
  const plan = planVmiTopology(vmi, network);
  const ports = plan.ok ? plan.topology.ports.length + plan.topology.bridges.length : 0;
  const { bindings, allowsHooks } = network;
  const ipamClaims = resolveIpamClaims(facts, definitions, facts.ipamClaims);
  const claims = { claims: storage.claims, ipamClaims };
  return { ...settings, ...claims, ports, bindings, allowsHooks, definitions };
}

function planClaims(states: readonly IpamClaimState[]): readonly VmiAction[] {
  return states.flatMap((state) =>
    state.kind === "missing" ? [{ kind: "createIpamClaim", claim: state.claim } as const] : [],
  );
}

function planPod(facts: VmiFacts): readonly VmiAction[] {
  const { vmi, network, storage } = facts;
  const hasStarted = vmi.status?.activePods !== undefined;
  if (hasStarted || findVmiStartProblems(vmi, network).length > 0) return [];
  if (findStorageFault(vmi, storage) !== undefined) return [];
  const claim = buildStateClaim(vmi, storage.config);
  if (claim !== undefined && !storage.claims.has(claim.metadata.name)) {
    return [{ kind: "createClaim", claim }];
  }
  const request = buildLauncherRequest(facts);
  const states = [...(request.ipamClaims?.values() ?? [])];
  if (states.some(isAwaited)) return planClaims(states);
  return [{ kind: "createPod", pod: buildLauncherPod(vmi, request) }];
}

/** Returns the next launcher pod if it has image volumes. A dry run with this pod shows whether the API server supports image volumes. */
export function buildImageVolumeTestPod(facts: VmiFacts): Pod | undefined {
  const settings = { ...facts.settings, supportsImageVolumes: true };
  const pods = planVmi({ ...facts, settings }).flatMap((action) =>
    action.kind === "createPod" ? [withoutPrimaryRequest(action.pod)] : [],
  );
  return pods.find(hasImageVolume);
}

/**
 * Plans the deletion of a launcher that lacks an image's files, unless its guest runs. The missing files show that the cluster does not
 * support image volumes, so the next launcher copies the files instead of mounting them.
 */
function planRecreation({ vmi }: VmiFacts, pod: Pod): readonly VmiAction[] {
  const isDeletedOrRunning =
    pod.metadata.deletionTimestamp !== undefined || vmi.status?.phase === "Running";
  return isDeletedOrRunning ? [] : [toDeletion(vmi, pod)];
}

/** Deletes the pod of an ended guest if hooks still run in it, because they would otherwise keep occupying the pod's resources. */
function planHookShutdown({ vmi, pod }: VmiFacts): readonly VmiAction[] {
  if (pod === undefined || pod.metadata.deletionTimestamp !== undefined) return [];
  return hasRunningHook(pod) ? [toDeletion(vmi, pod)] : [];
}

export function planVmi(facts: VmiFacts): readonly VmiAction[] {
  const { vmi, pod } = facts;
  const isMigrating = openMigration(vmi) !== undefined;
  // During a migration, the shutdown waits until the guest's final node is known.
  if (vmi.metadata.deletionTimestamp !== undefined) return isMigrating ? [] : planEnd(facts);
  if (vmi.metadata.finalizers?.includes(names.VMI_FINALIZER) !== true) {
    return [{ kind: "addFinalizer" }];
  }
  if (isVmiFinal(vmi)) return planHookShutdown(facts);
  if (pod === undefined) return planPod(facts);
  if (hasMissingImage(pod) && !isPodFinished(pod)) return planRecreation(facts, pod);
  // Changes other than the label wait until the migration has ended, so that only the final pod receives them.
  if (isMigrating) return planLabel(vmi, pod);
  const ipamClaims = resolveIpamClaims(facts, facts.definitions, facts.ipamClaims);
  const owner = { vmi, bindings: facts.network.bindings, absences: facts.absences, ipamClaims };
  return [
    ...planLabel(vmi, pod),
    ...planClaims([...ipamClaims.values()]),
    ...planNetworks(owner, pod),
    ...planNetworkInfo(owner, pod),
    ...planNics(vmi),
  ];
}
