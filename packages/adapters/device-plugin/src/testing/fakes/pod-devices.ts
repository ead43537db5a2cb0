// SPDX-License-Identifier: Apache-2.0
// In-memory devices of pods.
import { AppError } from "@patchbay/base";
import type { PodDevices } from "@patchbay/core/interfaces";

export interface FakePodDevices extends PodDevices {
  /** Assigns exactly these devices of a resource to the pod NAMESPACE/NAME. */
  put(pod: string, resource: string, ids: readonly string[]): void;
  /** Sets whether kubelet responds. */
  answer(isAvailable: boolean): void;
  /** Number of requests. */
  readonly queries: number;
}

export function createFakePodDevices(): FakePodDevices {
  const pods = new Map<string, Map<string, readonly string[]>>();
  let isAvailable = true;
  let queries = 0;
  return {
    put: (pod, resource, ids) => {
      const devices = pods.get(pod) ?? new Map<string, readonly string[]>();
      pods.set(pod, devices.set(resource, [...new Set(ids)].toSorted()));
    },
    answer: (isAvailableNow) => {
      isAvailable = isAvailableNow;
    },
    get queries() {
      return queries;
    },
    find: async ({ namespace, name }) => {
      await Promise.resolve();
      queries += 1;
      const pod = `${namespace}/${name}`;
      if (isAvailable) return new Map(pods.get(pod));
      throw new AppError("DEVICES_UNKNOWN", { socket: "/kubelet.sock", pod, reason: "away" });
    },
    listUsed: async (resource) => {
      await Promise.resolve();
      queries += 1;
      if (isAvailable) return new Set([...pods.values()].flatMap((all) => all.get(resource) ?? []));
      throw new AppError("DEVICES_NOT_LISTED", {
        socket: "/kubelet.sock",
        resource,
        reason: "away",
      });
    },
  };
}
