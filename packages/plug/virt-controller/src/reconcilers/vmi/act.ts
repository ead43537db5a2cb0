// SPDX-License-Identifier: Apache-2.0
// Performs the steps of a VMI's plan; each may be repeated.
import {
  names,
  PERSISTENT_VOLUME_CLAIMS,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  type PersistentVolumeClaim,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { isAppError, nicsPatch, versionTest, type VmiAction, type VmiFacts } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { Patch } from "@patchbay/core/ports";
import type { Deps } from "../../deps.ts";
import { createLauncher, patchAnnotation } from "../launchers.ts";
import { performSteps, type PerformedSteps } from "../steps.ts";

async function patchVmi(vmi: VirtualMachineInstance, patch: Patch, deps: Deps): Promise<void> {
  deps.ownWrites.note(await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch));
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

/** One that is there already is told by the watch. */
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

/** The pod's annotations may have been changed a step before. */
async function patchPodNetworkInfo({ pod }: VmiFacts, to: string, deps: Deps): Promise<void> {
  if (pod === undefined) return;
  const newest = deps.ownWrites.newest(pod);
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

/** Performs the plan. Circumstances are what the API server judges by, beside the step. */
export function actVmi(
  plan: readonly VmiAction[],
  facts: VmiFacts,
  deps: Deps,
): Promise<PerformedSteps> {
  const perform = (action: VmiAction): Promise<void> => performOne(action, facts, deps);
  const circumstances = String(facts.vmi.metadata.generation);
  return performSteps({ object: facts.vmi, plan, circumstances, perform }, deps);
}
