// SPDX-License-Identifier: Apache-2.0
// Performs the steps of a VMI's plan; each may be repeated.
import {
  names,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  type Pod,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { isAppError, nicsPatch, type VmiAction } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { JsonPatchOperation, Patch } from "@patchbay/ports";
import type { Deps } from "../../deps.ts";

type ActionOf<K extends VmiAction["kind"]> = Extract<VmiAction, { kind: K }>;

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
      ...(current.length === 0 ? [] : [{ op: "test", path, value: current } as const]),
      { op: "add", path, value: present ? [...others, names.VMI_FINALIZER] : others },
    ],
  };
}

async function createPod(pod: Pod, deps: Deps): Promise<void> {
  try {
    deps.ownWrites.note(await deps.store.create(PODS, pod));
    deps.log.info("created launcher pod", {
      pod: printKey(keyOf(pod)),
    });
  } catch (error) {
    // The name is a function of the VMI's uid: it is the same pod.
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
  }
}

async function patchPodNetworks(
  vmi: VirtualMachineInstance,
  action: ActionOf<"patchPodNetworks">,
  deps: Deps,
): Promise<void> {
  const path = `/metadata/annotations/${names.NETWORKS_ANNOTATION.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  const operations: readonly JsonPatchOperation[] = [
    ...(action.from === undefined ? [] : [{ op: "test", path, value: action.from } as const]),
    { op: "add", path, value: action.to },
  ];
  const key = { namespace: vmi.metadata.namespace ?? "", name: action.pod };
  deps.ownWrites.note(await deps.store.patch(PODS, key, { type: "json", operations }));
  deps.log.info("changed the pod's networks", {
    pod: printKey(key),
    networks: action.to,
  });
}

async function perform(action: VmiAction, vmi: VirtualMachineInstance, deps: Deps): Promise<void> {
  const namespace = vmi.metadata.namespace ?? "";
  switch (action.kind) {
    case "addFinalizer":
      await patchVmi(vmi, finalizersPatch(vmi, true), deps);
      return;
    case "removeFinalizer":
      await patchVmi(vmi, finalizersPatch(vmi, false), deps);
      return;
    case "createPod":
      await createPod(action.pod, deps);
      return;
    case "deletePod":
      await deps.store.delete(PODS, { namespace, name: action.name }, { uid: action.uid });
      return;
    case "labelNode": {
      const labels = { [names.NODE_NAME_LABEL]: action.node };
      await patchVmi(vmi, { type: "merge", fields: { metadata: { labels } } }, deps);
      return;
    }
    case "patchPodNetworks":
      await patchPodNetworks(vmi, action, deps);
      return;
    case "patchVmiNics":
      await patchVmi(
        vmi,
        { type: "json", operations: nicsPatch("/spec", vmi.spec, action.to) },
        deps,
      );
  }
}

/** Performs the plan in order; stops at the first failure. */
export async function actVmi(
  plan: readonly VmiAction[],
  vmi: VirtualMachineInstance,
  deps: Deps,
): Promise<void> {
  for (const action of plan) await perform(action, vmi, deps);
}
