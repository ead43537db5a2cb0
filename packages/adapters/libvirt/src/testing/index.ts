// SPDX-License-Identifier: Apache-2.0
// Fakes of this package's ports, and the contract suites that fakes and adapters pass.
export { describeHotplugContract, type HotplugBench } from "./contracts/hypervisor-hotplug.ts";
export { describeMoveContract, type MoveBench } from "./contracts/hypervisor-move.ts";
export { describeHypervisorContract, type HypervisorBench } from "./contracts/hypervisor.ts";
export type { FakeDaemon, UnplugPolicy } from "./fakes/hypervisor-daemon.ts";
export { createFakeHypervisor, type FakeHypervisor } from "./fakes/hypervisor.ts";
