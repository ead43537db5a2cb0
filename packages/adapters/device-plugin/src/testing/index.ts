// SPDX-License-Identifier: Apache-2.0
// What tests of this package and of others play a kubelet with.
export { TestKubelet } from "./test-kubelet.ts";
export { TestPodResources, type PodOfKubelet } from "./test-pod-resources.ts";
export { createFakePodDevices, type FakePodDevices } from "./fakes/pod-devices.ts";
export { describePodDevicesContract, type PodDevicesBench } from "./contracts/pod-devices.ts";
