// SPDX-License-Identifier: Apache-2.0
// The second door: fakes of what this package does, and the suites that they pass as it does.
export { describeHotplugContract, type HotplugBench } from "./contracts/hypervisor-hotplug.ts";
export { describeHypervisorContract, type HypervisorBench } from "./contracts/hypervisor.ts";
export {
  createFakeHypervisor,
  type FakeDaemon,
  type FakeHypervisor,
  type UnplugPolicy,
} from "./fakes/hypervisor.ts";
