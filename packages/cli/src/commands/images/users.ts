// SPDX-License-Identifier: Apache-2.0
// Finds the pods and VMs that use an image of a standalone machine.
import { join } from "node:path";
import {
  DATA_VOLUMES,
  withCurrentFieldNames,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type DataVolume,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { isPodFinished, type KubeObject, type Pod } from "@patchbay/api/kubernetes";
import { fullReference } from "@patchbay/containerd";
import { isAppError } from "@patchbay/base";
import { readDataVolume } from "@patchbay/core/vm";
import { createKubeClient, loadKubeConfig } from "@patchbay/kube";
import { createClock, createFiles } from "@patchbay/os";
import type { Context } from "../../command.ts";
import { createWarningLogger } from "../../session.ts";

const TIMEOUT_MS = 5_000;

function titleOf(kind: string, { metadata }: KubeObject): string {
  return `${kind} ${metadata.namespace ?? ""}/${metadata.name}`;
}

function listPodImages({ spec }: Pod): readonly (string | undefined)[] {
  return [
    ...[...(spec.initContainers ?? []), ...spec.containers].map(({ image }) => image),
    ...(spec.volumes ?? []).map(({ image }) => image?.reference),
  ];
}

function listVmImages(spec: VirtualMachineInstance["spec"]): readonly (string | undefined)[] {
  const { domain, volumes = [] } = withCurrentFieldNames(spec);
  return [
    domain.firmware?.kernelBoot?.container?.image,
    ...volumes.map(({ containerDisk }) => containerDisk?.image),
  ];
}

function listDataVolumeImages(
  { metadata, spec }: VirtualMachine,
  dataVolumes: readonly DataVolume[],
): readonly (string | undefined)[] {
  const namespace = metadata.namespace ?? "";
  const filled = new Set(
    dataVolumes
      .filter((vmi) => vmi.metadata.namespace === namespace && vmi.status?.phase === "Succeeded")
      .map((one) => one.metadata.name),
  );
  const waiting = (spec.dataVolumeTemplates ?? []).filter(
    (template) => !filled.has(template.metadata?.name ?? ""),
  );
  return waiting.map((template) => {
    const read = readDataVolume(template.spec, namespace);
    const source = "order" in read ? read.order.source : undefined;
    return source?.kind === "registry" ? source.image : undefined;
  });
}

/** Returns whether the image name `one` expands to the full reference `other`. Returns false if `one` is invalid. */
function isSame(one: string | undefined, other: string): boolean {
  try {
    return one !== undefined && fullReference(one) === other;
  } catch {
    return false;
  }
}

export interface PossibleUsers {
  readonly pods: readonly Pod[];
  readonly vms: readonly VirtualMachine[];
  readonly vmis: readonly VirtualMachineInstance[];
  readonly dataVolumes: readonly DataVolume[];
}

/** Lists the image's users: pods, VMs, and VMIs without a VM, as `pod default/a`. @throws AppError with IMAGE_NAME_INVALID */
export function listUsers(image: string, all: PossibleUsers): readonly string[] {
  const { pods, vms, vmis, dataVolumes } = all;
  const reference = fullReference(image);
  const usesIt = (one: string | undefined): boolean => isSame(one, reference);
  return [
    ...pods
      .filter((pod) => !isPodFinished(pod) && listPodImages(pod).some(usesIt))
      .map((pod) => titleOf("pod", pod)),
    ...vms
      .filter((vm) =>
        [...listVmImages(vm.spec.template.spec), ...listDataVolumeImages(vm, dataVolumes)].some(
          usesIt,
        ),
      )
      .map((vm) => titleOf("virtualmachine", vm)),
    ...vmis
      .filter(({ metadata }) => metadata.ownerReferences === undefined)
      .filter(({ spec }) => listVmImages(spec).some(usesIt))
      .map((vmi) => titleOf("virtualmachineinstance", vmi)),
  ];
}

/** Finds the pods, VMs and VMIs that use an image. Returns undefined if this standalone machine's API server is not running. */
export async function findImageUsers(
  context: Pick<Context, "global" | "err" | "signal">,
  image: string,
): Promise<readonly string[] | undefined> {
  const kubeconfig = join(context.global.dataDir, "kubeconfig");
  if (!(await createFiles().exists(kubeconfig))) return undefined;
  const config = await loadKubeConfig({ kubeconfig });
  const client = createKubeClient(config, {
    logger: createWarningLogger(context.err),
    clock: createClock(),
  });
  const options = { timeoutMs: TIMEOUT_MS, signal: context.signal };
  try {
    const [pods, vms, vmis, dataVolumes] = await Promise.all([
      client.store.list(PODS, options),
      client.store.list(VIRTUAL_MACHINES, options),
      client.store.list(VIRTUAL_MACHINE_INSTANCES, options),
      client.store.list(DATA_VOLUMES, options),
    ]);
    return listUsers(image, {
      pods: pods.items,
      vms: vms.items,
      vmis: vmis.items,
      dataVolumes: dataVolumes.items,
    });
  } catch (error) {
    if (isAppError(error, "KUBE_UNREACHABLE")) return undefined;
    throw error;
  } finally {
    await client.close();
  }
}
