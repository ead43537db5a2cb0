// SPDX-License-Identifier: Apache-2.0
// virt-controller's actions for one VMI: its launcher pod, the pod's networks, and its end.
import { isVmiFinal, names, type NetworkConfig, type VirtualMachineInstance } from "@patchbay/api";
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
  endGraceSeconds,
  buildLauncherPod,
  type LauncherRequest,
  type LauncherSettings,
} from "./pod/launcher-pod.ts";
import { printNetworkInfo } from "./pod/network-info.ts";
import { buildStateClaim } from "./pod/parts.ts";
import { planPodNetworks, type NetworksOwner } from "./pod/pod-networks.ts";
import { planOwnNics } from "../nics/spec-plan.ts";
import { vmiStartProblems } from "./start-problems.ts";
import { findStorageFault, type StorageFacts } from "./storage.ts";

export type VmiAction =
  | { readonly kind: "addFinalizer" }
  | { readonly kind: "removeFinalizer" }
  | { readonly kind: "createClaim"; readonly claim: PersistentVolumeClaim }
  | { readonly kind: "createPod"; readonly pod: Pod }
  | {
      readonly kind: "deletePod";
      readonly name: string;
      readonly uid: string;
      readonly graceSeconds: number;
    }
  | { readonly kind: "labelNode"; readonly node: string }
  | { readonly kind: "patchPodNetworks"; readonly to: string }
  | { readonly kind: "patchPodNetworkInfo"; readonly to: string }
  | { readonly kind: "patchVmiNics"; readonly to: Nics };

export interface VmiFacts {
  readonly vmi: VirtualMachineInstance;
  readonly pod: Pod | undefined;
  readonly settings: LauncherSettings;
  readonly network: NetworkConfig;
  readonly storage: StorageFacts;
  readonly definitions: Definitions;
  /** Networks for which the pod's node cannot create NICs. */
  readonly absences: UnavailableNetworks;
  readonly nodeLoss?: NodeLoss;
}

export function hasVm(vmi: VirtualMachineInstance): boolean {
  return findController(vmi) !== undefined;
}

function toDeletion(vmi: VirtualMachineInstance, { metadata }: Pod): VmiAction {
  const graceSeconds = endGraceSeconds(vmi);
  return { kind: "deletePod", name: metadata.name, uid: metadata.uid ?? "", graceSeconds };
}

/** Whether the pod is being deleted within the guest's grace period, which a stop may have shortened. */
function isDeletedInTime(vmi: VirtualMachineInstance, { metadata }: Pod): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds = 0 } = metadata;
  return deletionTimestamp !== undefined && deletionGracePeriodSeconds <= endGraceSeconds(vmi);
}

function planEnd({ vmi, pod }: VmiFacts): readonly VmiAction[] {
  if (pod === undefined) {
    return vmi.metadata.finalizers?.includes(names.VMI_FINALIZER) === true
      ? [{ kind: "removeFinalizer" }]
      : [];
  }
  return isDeletedInTime(vmi, pod) ? [] : [toDeletion(vmi, pod)];
}

/** Returns the elements of the pod's annotation. An unreadable annotation counts as empty, so that it is rewritten. */
export function podNetworkElements(pod: Pod): readonly NetworkSelection[] {
  const annotation = parseNetworks(pod.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
  return annotation.ok ? annotation.elements : [];
}

function planNetworks(owner: NetworksOwner, pod: Pod): readonly VmiAction[] {
  if (isPodFinished(pod) || pod.metadata.deletionTimestamp !== undefined) return [];
  const current = podNetworkElements(pod);
  const elements = planPodNetworks(owner, current);
  if (isEqual(current, elements)) return [];
  return [{ kind: "patchPodNetworks", to: printNetworks(elements) }];
}

function planNetworkInfo(owner: NetworksOwner, pod: Pod): readonly VmiAction[] {
  if (isPodFinished(pod) || pod.metadata.deletionTimestamp !== undefined) return [];
  const to = printNetworkInfo(owner, pod);
  const isCurrent = pod.metadata.annotations?.[names.NETWORK_INFO_ANNOTATION] === to;
  return to === undefined || isCurrent ? [] : [{ kind: "patchPodNetworkInfo", to }];
}

function planNics(vmi: VirtualMachineInstance): readonly VmiAction[] {
  if (hasVm(vmi)) return [];
  const from = nicsOf(vmi.spec);
  const to = planOwnNics(vmi);
  return isEqual(from, to) ? [] : [{ kind: "patchVmiNics", to }];
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
  return { ...settings, claims: storage.claims, ports, bindings, allowsHooks, definitions };
}

function planPod(facts: VmiFacts): readonly VmiAction[] {
  const { vmi, network, storage } = facts;
  const started = vmi.status?.activePods !== undefined;
  if (started || vmiStartProblems(vmi, network).length > 0) return [];
  if (findStorageFault(vmi, storage) !== undefined) return [];
  const claim = buildStateClaim(vmi, storage.config);
  if (claim !== undefined && !storage.claims.has(claim.metadata.name)) {
    return [{ kind: "createClaim", claim }];
  }
  return [{ kind: "createPod", pod: buildLauncherPod(vmi, buildLauncherRequest(facts)) }];
}

/** Returns a pod with image volumes, whose dry run shows whether the API server supports them; undefined if none would be created. */
export function planImageVolumeProbe(facts: VmiFacts): Pod | undefined {
  const settings = { ...facts.settings, supportsImageVolumes: true };
  const pods = planVmi({ ...facts, settings }).flatMap((action) =>
    action.kind === "createPod" ? [action.pod] : [],
  );
  return pods.find(hasImageVolume);
}

/** Deletes a launcher that lacks files of its images, so that it is recreated with copied files. */
function planRecreation({ vmi }: VmiFacts, pod: Pod): readonly VmiAction[] {
  const isDeletedOrRunning =
    pod.metadata.deletionTimestamp !== undefined || vmi.status?.phase === "Running";
  return isDeletedOrRunning ? [] : [toDeletion(vmi, pod)];
}

/** Deletes the pod of a guest that has ended, because running hooks would hold the pod's resources. */
function planHookShutdown({ vmi, pod }: VmiFacts): readonly VmiAction[] {
  if (pod === undefined || pod.metadata.deletionTimestamp !== undefined) return [];
  return hasRunningHook(pod) ? [toDeletion(vmi, pod)] : [];
}

export function planVmi(facts: VmiFacts): readonly VmiAction[] {
  const { vmi, pod } = facts;
  const isMigrating = openMigration(vmi) !== undefined;
  // A migrating guest is shut down on its final node.
  if (vmi.metadata.deletionTimestamp !== undefined) return isMigrating ? [] : planEnd(facts);
  if (vmi.metadata.finalizers?.includes(names.VMI_FINALIZER) !== true) {
    return [{ kind: "addFinalizer" }];
  }
  if (isVmiFinal(vmi)) return planHookShutdown(facts);
  if (pod === undefined) return planPod(facts);
  if (hasMissingImage(pod) && !isPodFinished(pod)) return planRecreation(facts, pod);
  // Changes wait until the migration has ended, so that only one pod gets them.
  if (isMigrating) return planLabel(vmi, pod);
  const owner = { vmi, bindings: facts.network.bindings, absences: facts.absences };
  return [
    ...planLabel(vmi, pod),
    ...planNetworks(owner, pod),
    ...planNetworkInfo(owner, pod),
    ...planNics(vmi),
  ];
}
