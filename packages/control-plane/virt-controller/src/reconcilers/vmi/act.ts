// SPDX-License-Identifier: Apache-2.0
// Executes a VMI's plan. Each step can be repeated.
import {
  PODS,
  type Pod,
  type VirtualMachineInstance,
  type JsonPatchOperation,
  names,
  PERSISTENT_VOLUME_CLAIMS,
  VIRTUAL_MACHINE_INSTANCES,
  type PersistentVolumeClaim,
} from "@patchbay/api";
import { AppError, isAppError } from "@patchbay/base";
import { isControlledBy } from "@patchbay/core/migration";
import { pointerToken, versionTest } from "@patchbay/core/status";
import { nicsPatch } from "@patchbay/core/nics";
import type { VmiAction, VmiFacts } from "@patchbay/core/vm";
import { keyOf, printKey } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import type { Patch } from "@patchbay/core/interfaces";
import { performSteps, type PerformedSteps } from "../steps.ts";

/** The cache may be stale; then the watch will deliver the pod. */
async function isOwnPod(vmi: VirtualMachineInstance, pod: Pod, deps: Deps): Promise<boolean> {
  const existing = await deps.store.find(PODS, keyOf(pod));
  return existing === undefined || isControlledBy(existing, vmi);
}

/** @throws AppError with CONTROLLER_LAUNCHER_NAME_TAKEN if a pod of that name belongs to another owner */
export async function createLauncher(
  pod: Pod,
  vmi: VirtualMachineInstance,
  deps: Deps,
): Promise<void> {
  const object = printKey(keyOf(pod));
  try {
    deps.mutationCache.note(await deps.store.create(PODS, pod));
    deps.log.info("created launcher pod", { pod: object });
  } catch (error) {
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
    if (!(await isOwnPod(vmi, pod, deps)))
      throw new AppError("CONTROLLER_LAUNCHER_NAME_TAKEN", { object });
  }
}

/** Writes one of the pod's annotations, and tests its old value. */
export async function patchAnnotation(
  pod: Pod,
  { annotation, to }: { readonly annotation: string; readonly to: string },
  deps: Deps,
): Promise<void> {
  const path = `/metadata/annotations/${pointerToken(annotation)}`;
  const from = pod.metadata.annotations?.[annotation];
  const operations: readonly JsonPatchOperation[] = [
    from === undefined ? versionTest(pod) : { op: "test", path, value: from },
    { op: "add", path, value: to },
  ];
  deps.mutationCache.note(await deps.store.patch(PODS, keyOf(pod), { type: "json", operations }));
}

async function patchVmi(vmi: VirtualMachineInstance, patch: Patch, deps: Deps): Promise<void> {
  deps.mutationCache.note(await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch));
}

function finalizersPatch(vmi: VirtualMachineInstance, present: boolean): Patch {
  const current = vmi.metadata.finalizers ?? [];
  const others = current.filter((finalizer) => finalizer !== names.VMI_FINALIZER);
  const path = "/metadata/finalizers";
  return {
    type: "json",
    operations: [
      current.length === 0 ? versionTest(vmi) : { op: "test", path, value: current },
      { op: "add", path, value: present ? [...others, names.VMI_FINALIZER] : others },
    ],
  };
}

/** The watch delivers an existing claim. */
async function createClaim(claim: PersistentVolumeClaim, deps: Deps): Promise<void> {
  try {
    await deps.store.create(PERSISTENT_VOLUME_CLAIMS, claim);
    deps.log.info("created claim", { claim: printKey(keyOf(claim)) });
  } catch (error) {
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
  }
}

async function patchPodNetworks({ pod }: VmiFacts, to: string, deps: Deps): Promise<void> {
  if (pod === undefined) return;
  await patchAnnotation(pod, { annotation: names.NETWORKS_ANNOTATION, to }, deps);
  deps.log.info("changed the pod's networks", { pod: printKey(keyOf(pod)), networks: to });
}

/** An earlier step may have changed the pod's annotations. */
async function patchPodNetworkInfo({ pod }: VmiFacts, to: string, deps: Deps): Promise<void> {
  if (pod === undefined) return;
  const newest = deps.mutationCache.newest(pod);
  await patchAnnotation(newest, { annotation: names.NETWORK_INFO_ANNOTATION, to }, deps);
}

async function performOne(action: VmiAction, facts: VmiFacts, deps: Deps): Promise<void> {
  const { vmi } = facts;
  switch (action.kind) {
    case "addFinalizer":
      await patchVmi(vmi, finalizersPatch(vmi, true), deps);
      return;
    case "removeFinalizer":
      await patchVmi(vmi, finalizersPatch(vmi, false), deps);
      return;
    case "createClaim":
      await createClaim(action.claim, deps);
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
      await patchPodNetworks(facts, action.to, deps);
      return;
    case "patchPodNetworkInfo":
      await patchPodNetworkInfo(facts, action.to, deps);
      return;
    case "patchVmiNics": {
      const place = { object: vmi, base: "/spec", spec: vmi.spec };
      await patchVmi(vmi, { type: "json", operations: nicsPatch(place, action.to) }, deps);
    }
  }
}

/** The inputs of the steps include what the API server validates against. */
export function actVmi(
  plan: readonly VmiAction[],
  facts: VmiFacts,
  deps: Deps,
): Promise<PerformedSteps> {
  const perform = (action: VmiAction): Promise<void> => performOne(action, facts, deps);
  const inputs = String(facts.vmi.metadata.generation);
  return performSteps({ object: facts.vmi, plan, inputs, perform }, deps);
}
