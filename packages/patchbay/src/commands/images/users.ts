// SPDX-License-Identifier: Apache-2.0
// Who on this machine needs an image? Asked of the machine's own API server; pure but for that.
import { join } from "node:path";
import {
  isPodFinished,
  PODS,
  VIRTUAL_MACHINES,
  type Pod,
  type VirtualMachine,
} from "@patchbay/api";
import { isAppError } from "@patchbay/core";
import { createKubeClient, loadKubeConfig } from "@patchbay/kube";
import { createClock, createFiles } from "@patchbay/os";
import type { Context } from "../../command.ts";
import { warnTo } from "../../session.ts";

/** Time for one list; a machine that is down refuses at once. */
const TIMEOUT_MS = 5_000;

function titleOf(kind: string, { metadata }: Pod | VirtualMachine): string {
  return `${kind} ${metadata.namespace ?? ""}/${metadata.name}`;
}

function usesImage(pod: Pod, image: string): boolean {
  const volumes = pod.spec.volumes ?? [];
  return (
    pod.spec.containers.some((container) => container.image === image) ||
    volumes.some((volume) => volume.image?.reference === image)
  );
}

function bootsFrom(vm: VirtualMachine, image: string): boolean {
  return vm.spec.template.spec.domain.firmware?.kernelBoot?.container?.image === image;
}

/** Pods that run from the image and VMs that start from it, for example `pod default/a`. */
export function usersOf(
  image: string,
  pods: readonly Pod[],
  vms: readonly VirtualMachine[],
): readonly string[] {
  return [
    ...pods
      .filter((pod) => !isPodFinished(pod) && usesImage(pod, image))
      .map((pod) => titleOf("pod", pod)),
    ...vms.filter((vm) => bootsFrom(vm, image)).map((vm) => titleOf("virtualmachine", vm)),
  ];
}

/** The users of an image; none when there is no machine, or it is down: then nothing runs from it. */
export async function findImageUsers(context: Context, image: string): Promise<readonly string[]> {
  const kubeconfig = join(context.global.dataDir, "kubeconfig");
  if (!(await createFiles().exists(kubeconfig))) return [];
  const config = await loadKubeConfig({ kubeconfig });
  const client = createKubeClient(config, { logger: warnTo(context.err), clock: createClock() });
  const options = { timeoutMs: TIMEOUT_MS, signal: context.signal };
  try {
    const [pods, vms] = await Promise.all([
      client.store.list(PODS, options),
      client.store.list(VIRTUAL_MACHINES, options),
    ]);
    return usersOf(image, pods.items, vms.items);
  } catch (error) {
    if (isAppError(error, "KUBE_UNREACHABLE")) return [];
    throw error;
  } finally {
    await client.close();
  }
}
