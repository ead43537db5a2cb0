// SPDX-License-Identifier: Apache-2.0
// Devices of pods, from kubelet's pod resources API. Source: kubelet podresources v1
import { fileURLToPath } from "node:url";
import { status, type ServiceDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { AppError, messageOf, type Clock } from "@patchbay/base";
import type { PodDevices } from "@patchbay/core/interfaces";
import { callKubelet } from "./kubelet-client.ts";

/** Source: kubelet podresources v1 PodResources */
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
  return loadSync(path, { defaults: true })["v1.PodResourcesLister"] as ServiceDefinition;
}

/**
 * gRPC statuses with which `Get` fails if the kubelet does not implement `Get`, has `Get` disabled, or does not know the pod. `List` may
 * succeed in these cases. Source: kubelet podresources, server_v1.go
 */
const LISTABLE_STATUSES: readonly unknown[] = [status.UNIMPLEMENTED, status.UNKNOWN];

function canList(error: unknown): boolean {
  return error instanceof Error && "code" in error && LISTABLE_STATUSES.includes(error.code);
}

type AllPods = { readonly podResources: readonly PodResources[] };

async function listPods(
  socket: string,
  clock: Pick<Clock, "now">,
): Promise<readonly PodResources[]> {
  const request = { service: loadService(), method: "List", request: {} };
  return (await callKubelet<AllPods>(socket, request, clock)).podResources;
}

async function findPodResources(
  socket: string,
  { namespace, name }: PodName,
  clock: Pick<Clock, "now">,
): Promise<PodResources | undefined> {
  const service = loadService();
  const request = { podName: name, podNamespace: namespace };
  let getFailure: unknown;
  try {
    const kubeletRequest = { service, method: "Get", request };
    type Answer = { readonly podResources: PodResources | null };
    return (await callKubelet<Answer>(socket, kubeletRequest, clock)).podResources ?? undefined;
  } catch (error) {
    if (!canList(error)) throw error;
    getFailure = error;
  }
  const pods = await listPods(socket, clock).catch((cause: unknown) => {
    throw new Error(`List: ${messageOf(cause)}; Get: ${messageOf(getFailure)}`, { cause });
  });
  return pods.find((pod) => pod.namespace === namespace && pod.name === name);
}

function groupDevices(pod: PodResources | undefined): ReadonlyMap<string, readonly string[]> {
  const idsByResource = new Map<string, Set<string>>();
  const devices = pod?.containers.flatMap((container) => container.devices) ?? [];
  for (const { resourceName, deviceIds } of devices) {
    idsByResource.set(
      resourceName,
      new Set([...(idsByResource.get(resourceName) ?? []), ...deviceIds]),
    );
  }
  return new Map([...idsByResource].map(([resource, ids]) => [resource, [...ids].toSorted()]));
}

/** Creates an adapter that reports no devices, for a kubelet without device plugins, as on a standalone machine. */
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
