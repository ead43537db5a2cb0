// SPDX-License-Identifier: Apache-2.0
// Fakes of the interfaces that this package implements, and their contract suites.
export { describeChildStarterContract } from "./contracts/child-process.ts";
export { describeClaimDiskContract } from "./contracts/claim-disk.ts";
export { describeClockContract } from "./contracts/clock.ts";
export { describeDeviceNodesContract } from "./contracts/device-nodes.ts";
export { describeFilesContract } from "./contracts/files.ts";
export { describeLauncherDisksContract } from "./contracts/launcher-disks.ts";
export { describeLaunchersContract } from "./contracts/launchers.ts";
export { describeNamespacesContract } from "./contracts/namespaces.ts";
export { describeProcessRunnerContract } from "./contracts/process-runner.ts";
export {
  describeVhostDirectoriesContract,
  describeVhostSocketsContract,
} from "./contracts/vhost-sockets.ts";
export { describeVolumeDiskContract, type VolumeDiskBench } from "./contracts/volume-disk.ts";
export { createFakeChildStarter } from "./fakes/child-process.ts";
export { createFakeClaimDisk, type FakeClaimDisk } from "./fakes/claim-disk.ts";
export { createFakeClock, settle, type FakeClock } from "./fakes/clock.ts";
export { createFakeDeviceNodes, type FakeDeviceNodes } from "./fakes/device-nodes.ts";
export { createFakeFiles, type FakeFiles } from "./fakes/files.ts";
export { createFakeLauncherDisks, type FakeLauncherDisks } from "./fakes/launcher-disks.ts";
export { createFakeLaunchers } from "./fakes/launchers.ts";
export { createFakeNamespaces, type FakeNamespaces } from "./fakes/namespaces.ts";
export { createFakeProcessRunner } from "./fakes/process-runner.ts";
export {
  createFakeVhostDirectories,
  createFakeVhostSockets,
  type FakeVhostDirectories,
  type FakeVhostSockets,
} from "./fakes/vhost-sockets.ts";
export { createFakeVolumeDisk, type FakeMount, type FakeVolumeDisk } from "./fakes/volume-disk.ts";
