// SPDX-License-Identifier: Apache-2.0
// Test kubelets, the fake of PodDevices and its contract suite.
export { TestKubelet } from "./test-kubelet.ts";
export { TestPodResources, type PodOfKubelet } from "./test-pod-resources.ts";
export { createFakePodDevices, type FakePodDevices } from "./fakes/pod-devices.ts";
export { describePodDevicesContract, type PodDevicesBench } from "./contracts/pod-devices.ts";
