// SPDX-License-Identifier: Apache-2.0
export type { Cache, Change } from "./cache.ts";
export type {
  ChildChannel,
  ChildMain,
  ChildProcessHandle,
  ChildProgram,
  ChildStarter,
  ProcessIdentity,
  ClaimedDescriptor,
} from "./child-process.ts";
export type {
  AttachmentName,
  AttachmentRequest,
  Cni,
  CniResult,
  NetworkConfigList,
} from "./cni.ts";
export type {
  AttachRequest,
  ContainerConfig,
  ContainerDevice,
  ContainerImage,
  ContainerMount,
  ContainerResources,
  ContainerRuntime,
  ContainerSecurity,
  ContainerState,
  ContainerStatus,
  ContainerSummary,
  ContainerWrites,
  ExecRequest,
  ExecResult,
  MountPropagation,
  NamespaceOptions,
  RegistryCredentials,
  RuntimeFilter,
  SandboxConfig,
  SandboxStatus,
  SandboxSummary,
  SecurityProfile,
} from "./container-runtime.ts";
export type { Files } from "./files.ts";
export type {
  AttachTarget,
  ConnectionEnd,
  DeviceTarget,
  DomainInfo,
  DomainLifecycle,
  DomainState,
  GuestFacts,
  GuestInterface,
  GuestSystem,
  GuestTopic,
  Hypervisor,
  HypervisorAddress,
  HypervisorConnection,
  HypervisorEvent,
  JobStats,
  Migration,
  OpenOptions,
} from "./hypervisor.ts";
export type { Launcher, LauncherPod, Launchers } from "./launchers.ts";
export type { Namespaces, NetnsHandle, OpenNetns } from "./namespaces.ts";
export type { AddressServer, AddressServers } from "./node/address-servers.ts";
export type { ClaimDisk, ClaimSize } from "./node/claim-disk.ts";
export type { DefaultRoute, DefaultRoutes, NewDefaultRoute } from "./node/default-routes.ts";
export type { CopyResult, DeviceCopy, DeviceNodes } from "./node/device-nodes.ts";
export type { ExecPrograms } from "./node/exec-programs.ts";
export type { ExaminedNic, NicDoctor } from "./node/frames/nic-doctor.ts";
export type { CapturedLink, PacketCapture, PacketCaptures } from "./node/frames/packet-captures.ts";
export type {
  CloudInitRequest,
  DefineDomainRequest,
  HookInfo,
  HookSidecar,
  HookSidecars,
  HookVersion,
} from "./node/hook-sidecars.ts";
export type { LauncherDisks } from "./node/launcher-disks.ts";
export type {
  ChangedLink,
  FrameFilter,
  FrameWatch,
  LinkChanges,
  LinkCounters,
  LinkWatch,
  WatchedFrame,
  WatchedFrames,
  WatchedLinks,
} from "./node/link-watch.ts";
export type {
  FrameChecksum,
  FrameTest,
  ReceivedFrames,
  Netlink,
  NetlinkAnswer,
  NetlinkProtocol,
  NewTap,
} from "./node/netlink.ts";
export type { NodeNic, NodeNicName, NodeNics, RestoredNic } from "./node/node-nics.ts";
export type { PodDevices } from "./node/pod-devices.ts";
export type {
  AnnouncedNic,
  BorrowedNic,
  Link,
  NicPaths,
  PodNetwork,
  PodView,
  RenamedNic,
} from "./node/pod-network.ts";
export type { VhostDirectories, VhostSockets } from "./node/vhost-sockets.ts";
export type { DirectoryAccess, PathKind, VolumeDisk, VolumeFile } from "./node/volume-disk.ts";
export type { Command, CommandResult, InheritedFd, ProcessRunner } from "./process-runner.ts";
export type { Sandbox, Sandboxes } from "./sandboxes.ts";
export type {
  CallOptions,
  DeleteOptions,
  ListOptions,
  ObjectKey,
  Patch,
  Store,
  WriteOptions,
} from "./store.ts";
