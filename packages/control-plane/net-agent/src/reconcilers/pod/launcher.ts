// SPDX-License-Identifier: Apache-2.0
// Launcher pods, and the networks that a pod may use.
import {
  names,
  VIRTUAL_MACHINE_INSTANCES,
  type Pod,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { AppError, isAppError } from "@patchbay/base";
import { networkNameOf, networksOf } from "@patchbay/core/nics";
import { parseKey } from "@patchbay/kube";
import type { ObjectKey } from "@patchbay/core/interfaces";
import type { Deps } from "../../deps.ts";

/** Namespace whose networks every pod may use. Source: Multus, default of `globalNamespaces`. */
const SHARED_NAMESPACE = "default";

/** Program of KubeVirt's launchers. Patchbay's launchers have no command. Source: KubeVirt pkg/virt-controller/services/template.go. */
const KUBEVIRT_LAUNCHER = /(?:^|\/)virt-launcher(?:-monitor)?$/;

/** Whether the pod is a launcher of KubeVirt, by its own spec. A pod that pretends to be one harms only itself. */
export function isKubeVirtLauncher(pod: Pod | undefined): boolean {
  if (pod?.metadata.labels?.[names.KUBEVIRT_LABEL] !== names.LAUNCHER_LABEL_VALUE) return false;
  return pod.spec.containers.some(
    ({ name, command = [] }) =>
      name === names.LAUNCHER_CONTAINER && KUBEVIRT_LAUNCHER.test(command[0] ?? ""),
  );
}

/** Reads the VMI live: it may be newer than the caches. Pod authors can forge owner references, so the VMI must exist with this uid. */
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
    if (isAppError(error, "KUBE_NOT_FOUND")) return undefined; // the kind does not exist
    throw error;
  }
}

interface PodOfNamespace {
  readonly pod?: Pod;
  readonly attachments: { readonly namespace: string };
}

/** A launcher may also use the networks that its VMI names, because the VMI's author needed permission to read them. */
export async function mayUse(network: string, facts: PodOfNamespace, deps: Deps): Promise<boolean> {
  const { namespace } = facts.attachments;
  const owner = parseKey(network).namespace;
  if (!deps.isIsolated || owner === namespace || owner === SHARED_NAMESPACE) return true;
  const vmi = await findVmiOf(facts.pod, deps);
  const named = vmi === undefined ? [] : networksOf(vmi.spec);
  return named.some((candidate) => networkNameOf(candidate, namespace) === network);
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
