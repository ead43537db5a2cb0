// SPDX-License-Identifier: Apache-2.0
// Is a pod the launcher of a VM, and which networks may a pod use?
import {
  names,
  VIRTUAL_MACHINE_INSTANCES,
  type Pod,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { AppError, isAppError, networkNameOf, networksOf } from "@patchbay/core";
import { parseKey } from "@patchbay/kube";
import type { ObjectKey } from "@patchbay/core/ports";
import type { Deps } from "../../deps.ts";

/** Whose networks every pod may use, beside those of its own namespace. Source: Multus, `globalNamespaces` when it is not set. */
const SHARED_NAMESPACE = "default";

/** Program of the launchers of KubeVirt; those of Patchbay name none. Source: KubeVirt pkg/virt-controller/services/template.go. */
const KUBEVIRT_LAUNCHER = /(?:^|\/)virt-launcher(?:-monitor)?$/;

/** Whether the pod is a launcher of KubeVirt's own, by what the pod says: a pod that pretends to be one harms only itself. */
export function isKubeVirtLauncher(pod: Pod | undefined): boolean {
  if (pod?.metadata.labels?.[names.KUBEVIRT_LABEL] !== names.LAUNCHER_LABEL_VALUE) return false;
  return pod.spec.containers.some(
    ({ name, command = [] }) =>
      name === names.LAUNCHER_CONTAINER && KUBEVIRT_LAUNCHER.test(command[0] ?? ""),
  );
}

/**
 * The VMI that the pod is the launcher of, read live: at an attachment the pod is told of what its VMI already says.
 * Whoever may make pods can write any label and any owner into them; what is asked for here is the VMI itself, in the
 * pod's own namespace. Undefined also where nothing of KubeVirt's kinds is installed.
 */
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
    if (isAppError(error, "KUBE_NOT_FOUND")) return undefined; // not even the kind is there
    throw error;
  }
}

/** The pod that asks, and the namespace of its attachments. */
interface Asking {
  readonly pod?: Pod;
  readonly attachments: { readonly namespace: string };
}

/**
 * Whether the pod may use the network: one of its own namespace or of `default`; for a launcher also one that its VMI
 * names, since whoever wrote that was asked for the right to read it.
 */
export async function mayUse(network: string, facts: Asking, deps: Deps): Promise<boolean> {
  const { namespace } = facts.attachments;
  const of = parseKey(network).namespace;
  if (!deps.isIsolated || of === namespace || of === SHARED_NAMESPACE) return true;
  const vmi = await findVmiOf(facts.pod, deps);
  const named = vmi === undefined ? [] : networksOf(vmi.spec);
  return named.some((candidate) => networkNameOf(candidate, namespace) === network);
}

/** @throws AppError with CNI_NETWORK_FORBIDDEN */
export async function assertMayUse(network: string, facts: Asking, deps: Deps): Promise<void> {
  if (await mayUse(network, facts, deps)) return;
  const { namespace } = facts.attachments;
  throw new AppError("CNI_NETWORK_FORBIDDEN", { network, namespace });
}
