// SPDX-License-Identifier: Apache-2.0
// A kubelet in memory, as far as devices of pods go.
import { AppError } from "@patchbay/base";
import type { PodDevices } from "@patchbay/core/interfaces";

/** {@link PodDevices} in memory. */
export interface FakePodDevices extends PodDevices {
  /** The pod, NAMESPACE/NAME, has these devices of the resource from now on. */
  put(pod: string, resource: string, ids: readonly string[]): void;
  /** The kubelet answers from now on, or does not. */
  answer(isThere: boolean): void;
  /** How often it was asked. */
  readonly asked: number;
}

/** A kubelet whose pods have no devices. */
export function createFakePodDevices(): FakePodDevices {
  const pods = new Map<string, Map<string, readonly string[]>>();
  let isThere = true;
  let asked = 0;
  return {
    put: (pod, resource, ids) => {
      const devices = pods.get(pod) ?? new Map<string, readonly string[]>();
      pods.set(pod, devices.set(resource, [...new Set(ids)].toSorted()));
    },
    answer: (isThereNow) => {
      isThere = isThereNow;
    },
    get asked() {
      return asked;
    },
    find: async ({ namespace, name }) => {
      await Promise.resolve();
      asked += 1;
      const pod = `${namespace}/${name}`;
      if (isThere) return new Map(pods.get(pod));
      throw new AppError("DEVICES_UNKNOWN", { socket: "/kubelet.sock", pod, reason: "away" });
    },
    listUsed: async (resource) => {
      await Promise.resolve();
      asked += 1;
      if (isThere) return new Set([...pods.values()].flatMap((all) => all.get(resource) ?? []));
      throw new AppError("DEVICES_NOT_LISTED", {
        socket: "/kubelet.sock",
        resource,
        reason: "away",
      });
    },
  };
}
