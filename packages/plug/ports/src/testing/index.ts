// SPDX-License-Identifier: Apache-2.0
// The second door of ports: for each port a fake and a contract suite.
export { describeCacheContract } from "../contracts/cache.ts";
export { describeChildStarterContract } from "../contracts/child-process.ts";
export { describeClockContract } from "../contracts/clock.ts";
export { describeCniContract } from "../contracts/cni.ts";
export { describeContainerRuntimeContract } from "../contracts/container-runtime.ts";
export {
  containerConfigFor,
  sandboxConfigFor,
  type ContainerRuntimeBench,
} from "../contracts/container-runtime/bench.ts";
export { describeContainersContract } from "../contracts/container-runtime/containers.ts";
export { describeFilesContract } from "../contracts/files.ts";
export { describeHypervisorContract, type HypervisorBench } from "../contracts/hypervisor.ts";
export { describeHotplugContract, type HotplugBench } from "../contracts/hypervisor-hotplug.ts";
export { describeLaunchersContract } from "../contracts/launchers.ts";
export { describeLoggerContract } from "../contracts/logger.ts";
export { describeNamespacesContract } from "../contracts/namespaces.ts";
export { describePodNetworkContract } from "../contracts/pod-network.ts";
export { describeProcessRunnerContract } from "../contracts/process-runner.ts";
export { describeExecProgramsContract } from "../contracts/node/exec-programs.ts";
export { describeSandboxesContract } from "../contracts/sandboxes.ts";
export { describeStoreContract } from "../contracts/store.ts";
export { createFakeCache, type FakeCache } from "../fakes/cache.ts";
export { createFakeChildStarter } from "../fakes/child-process.ts";
export { createFakeClock, settle, type FakeClock } from "../fakes/clock.ts";
export { createFakeCni, type FakeCni } from "../fakes/cni.ts";
export {
  createFakeContainerRuntime,
  type FakeContainerRuntime,
  type FakeRuntimeCall,
} from "../fakes/container-runtime.ts";
export { createFakeFiles, type FakeFiles } from "../fakes/files.ts";
export {
  createFakeHypervisor,
  type FakeDaemon,
  type FakeHypervisor,
  type UnplugPolicy,
} from "../fakes/hypervisor.ts";
export { createFakeLaunchers } from "../fakes/launchers.ts";
export { createFakeLogger, type FakeLogger } from "../fakes/logger.ts";
export { createFakeNamespaces, type FakeNamespaces } from "../fakes/namespaces.ts";
export { createFakePodNetwork, WIRING_PARTS, type FakePodNetwork } from "../fakes/pod-network.ts";
export { createFakeProcessRunner } from "../fakes/process-runner.ts";
export { createFakeExecPrograms, type FakeExecPrograms } from "../fakes/node/exec-programs.ts";
export { createFakeSandboxes, type FakeSandboxes } from "../fakes/sandboxes.ts";
export { createFakeStore, type FakeStore } from "../fakes/store.ts";
export { describeClaimDiskContract } from "../contracts/node/claim-disk.ts";
export { createFakeClaimDisk, type FakeClaimDisk } from "../fakes/node/claim-disk.ts";
export { describeVolumeDiskContract, type VolumeDiskBench } from "../contracts/node/volume-disk.ts";
export {
  createFakeVolumeDisk,
  type FakeMount,
  type FakeVolumeDisk,
} from "../fakes/node/volume-disk.ts";
export { describeDeviceNodesContract } from "../contracts/node/device-nodes.ts";
export { createFakeDeviceNodes, type FakeDeviceNodes } from "../fakes/node/device-nodes.ts";
export { describeLinkCountersContract } from "../contracts/node/link-counters.ts";
export { describeNetlinkContract } from "../contracts/node/netlink.ts";
export { createFakeNetlink, type FakeNetlink } from "../fakes/node/netlink.ts";
export { createFakeLinkCounters, type FakeLinkCounters } from "../fakes/node/link-counters.ts";
export { describeLinkWatchContract } from "../contracts/node/link-watch.ts";
export { createFakeLinkWatch, type FakeLinkWatch } from "../fakes/node/link-watch.ts";
export {
  describeAddressServersContract,
  SERVED_NIC,
  type AddressServersBench,
} from "../contracts/node/address-servers.ts";
export {
  createFakeAddressServers,
  type FakeAddressServers,
} from "../fakes/node/address-servers.ts";
export { noteCalls } from "./calls.ts";
