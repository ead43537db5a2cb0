// SPDX-License-Identifier: Apache-2.0
// The second door of ports: fakes and contract suites.
export { describeCniContract } from "./contracts/cni.ts";
export { describePodNetworkContract } from "./contracts/pod-network.ts";
export { createFakeCni, type FakeCni } from "./fakes/cni.ts";
export { createFakePodNetwork, WIRING_PARTS, type FakePodNetwork } from "./fakes/pod-network.ts";
export { createFakeStore, type FakeStore } from "./fakes/store.ts";
export { describeHypervisorContract, type HypervisorBench } from "./contracts/hypervisor.ts";
export { describeHotplugContract, type HotplugBench } from "./contracts/hypervisor-hotplug.ts";
export {
  createFakeHypervisor,
  type FakeDaemon,
  type FakeHypervisor,
  type UnplugPolicy,
} from "./fakes/hypervisor.ts";
export { createFakeFiles, type FakeFiles } from "./fakes/files.ts";
