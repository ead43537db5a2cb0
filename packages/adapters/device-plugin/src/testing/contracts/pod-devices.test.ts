// SPDX-License-Identifier: Apache-2.0
// The fake of a kubelet's pod resources keeps the contract.
import { createFakePodDevices } from "../fakes/pod-devices.ts";
import { describePodDevicesContract } from "./pod-devices.ts";

describePodDevicesContract("fake", () => {
  const devices = createFakePodDevices();
  return {
    devices,
    put: (pod, resource, ids) => {
      devices.put(pod, resource, ids);
    },
    stop: () => {
      devices.answer(false);
    },
  };
});
