// SPDX-License-Identifier: Apache-2.0
// Contract of PodDevices, for the fake and for a kubelet's socket.
import { isAppError } from "@patchbay/base";
import type { PodDevices } from "@patchbay/core/interfaces";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

/** Node with a kubelet. */
export interface PodDevicesBench {
  readonly devices: PodDevices;
  /** Assigns exactly these devices of a resource to the pod NAMESPACE/NAME. */
  put(pod: string, resource: string, ids: readonly string[]): void;
  /** Stops kubelet. */
  stop(): Promise<void> | void;
}

const POD = { namespace: "ns1", name: "pod" };

/** Defines the contract's tests. Each test makes a new bench. */
export function describePodDevicesContract(
  name: string,
  make: () => Promise<PodDevicesBench> | PodDevicesBench,
): void {
  describe(`PodDevices: ${name}`, () => {
    let bench: PodDevicesBench;
    beforeEach(async () => {
      bench = await make();
    });
    afterEach(async () => {
      await bench.stop();
    });

    test("a pod that is unknown or has no devices has no devices", async () => {
      bench.put("ns1/other", "vendor.io/nic", ["a"]);
      bench.put("ns2/pod", "vendor.io/nic", ["b"]);
      expect(await bench.devices.find(POD)).toEqual(new Map());
    });

    test("lists each resource's devices sorted and without duplicates", async () => {
      bench.put("ns1/pod", "vendor.io/nic", ["0000:03:02.1", "0000:03:02.0", "0000:03:02.1"]);
      bench.put("ns1/pod", "vendor.io/disk", ["1"]);
      expect(await bench.devices.find(POD)).toEqual(
        new Map([
          ["vendor.io/nic", ["0000:03:02.0", "0000:03:02.1"]],
          ["vendor.io/disk", ["1"]],
        ]),
      );
    });

    test("lists the devices of a resource for all pods", async () => {
      expect(await bench.devices.listUsed("vendor.io/nic")).toEqual(new Set());
      bench.put("ns1/pod", "vendor.io/nic", ["a", "b"]);
      bench.put("ns2/pod", "vendor.io/nic", ["c"]);
      bench.put("ns2/pod", "vendor.io/disk", ["d"]);
      expect(await bench.devices.listUsed("vendor.io/nic")).toEqual(new Set(["a", "b", "c"]));
      await bench.stop();
      await expect(bench.devices.listUsed("vendor.io/nic")).rejects.toMatchObject({
        code: "DEVICES_NOT_LISTED",
      });
    });

    test("reports an unreachable kubelet with its socket", async () => {
      await bench.stop();
      const error: unknown = await bench.devices.find(POD).catch((thrown: unknown) => thrown);
      expect(isAppError(error, "DEVICES_UNKNOWN") && error.details).toMatchObject({
        pod: "ns1/pod",
        socket: expect.stringMatching(/^\/.*\.sock$/) as string,
      });
    });
  });
}
