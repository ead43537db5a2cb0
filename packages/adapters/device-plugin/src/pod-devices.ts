// SPDX-License-Identifier: Apache-2.0
// Devices of pods, from kubelet's pod resources API. Source: kubelet podresources v1
import { fileURLToPath } from "node:url";
import { status, type ServiceDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { AppError, messageOf, type Clock } from "@patchbay/base";
import type { PodDevices } from "@patchbay/core/interfaces";
import { callKubelet } from "./kubelet-client.ts";

/** Resources of a pod. Source: kubelet podresources v1 PodResources */
interface PodResources {
  readonly name: string;
  readonly namespace: string;
  readonly containers: readonly {
    readonly devices: readonly {
      readonly resourceName: string;
      readonly deviceIds: readonly string[];
    }[];
  }[];
}

type PodName = Parameters<PodDevices["find"]>[0];

function loadService(): ServiceDefinition {
  const path = fileURLToPath(new URL("../proto/pod-resources.proto", import.meta.url));
  return loadSync(path, { defaults: true })["v1.PodResourcesLister"] as ServiceDefinition; // a service, by its name
}

/** Checks for errors after which other methods would fail in the same way. */
function isUnreachable(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === status.UNAVAILABLE || code === status.DEADLINE_EXCEEDED;
}

type AllPods = { readonly podResources: readonly PodResources[] };

async function listPods(
  socket: string,
  clock: Pick<Clock, "now">,
): Promise<readonly PodResources[]> {
  const question = { service: loadService(), method: "List", request: {} };
  return (await callKubelet<AllPods>(socket, question, clock)).podResources;
}

/** Finds the pod's resources. Lists all pods if kubelet does not serve the method for one pod. */
async function findPodResources(
  socket: string,
  { namespace, name }: PodName,
  clock: Pick<Clock, "now">,
): Promise<PodResources | undefined> {
  const service = loadService();
  const request = { podName: name, podNamespace: namespace };
  try {
    const question = { service, method: "Get", request };
    type Answer = { readonly podResources: PodResources | null };
    return (await callKubelet<Answer>(socket, question, clock)).podResources ?? undefined;
  } catch (error) {
    if (isUnreachable(error)) throw error;
  }
  const pods = await listPods(socket, clock);
  return pods.find((pod) => pod.namespace === namespace && pod.name === name);
}

function groupDevices(pod: PodResources | undefined): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, Set<string>>();
  const devices = pod?.containers.flatMap((container) => container.devices) ?? [];
  for (const { resourceName, deviceIds } of devices) {
    found.set(resourceName, new Set([...(found.get(resourceName) ?? []), ...deviceIds]));
  }
  return new Map([...found].map(([resource, ids]) => [resource, [...ids].toSorted()]));
}

/** Creates the adapter for a node whose kubelet has no device plugins, such as a standalone machine's. */
export function createNoPodDevices(): PodDevices {
  return {
    find: () => Promise.resolve(new Map()),
    listUsed: () => Promise.resolve(new Set()),
  };
}

export function createPodDevices(socket: string, clock: Pick<Clock, "now">): PodDevices {
  return {
    find: async (pod) => {
      try {
        return groupDevices(await findPodResources(socket, pod, clock));
      } catch (cause) {
        const reason = messageOf(cause);
        const key = `${pod.namespace}/${pod.name}`;
        throw new AppError("DEVICES_UNKNOWN", { socket, pod: key, reason }, { cause });
      }
    },
    listUsed: async (resource) => {
      try {
        const pods = await listPods(socket, clock);
        return new Set(pods.flatMap((pod) => groupDevices(pod).get(resource) ?? []));
      } catch (cause) {
        const reason = messageOf(cause);
        throw new AppError("DEVICES_NOT_LISTED", { socket, resource, reason }, { cause });
      }
    },
  };
}
