// SPDX-License-Identifier: Apache-2.0
// The public door of ports.
export type {
  ChildChannel,
  ChildMain,
  ChildProcessHandle,
  ChildProgram,
  ChildStarter,
  ProcessIdentity,
  TakenDescriptor,
} from "./child-process.ts";
export type { Clock } from "./clock.ts";
export type { AttachmentRequest, Cni, CniResult, NetworkConfigList } from "./cni.ts";
export type { Files } from "./files.ts";
export type {
  ConnectionEnd,
  DeviceTarget,
  DomainInfo,
  DomainLifecycle,
  DomainState,
  GuestInterface,
  Hypervisor,
  HypervisorAddress,
  HypervisorConnection,
  HypervisorEvent,
  OpenOptions,
} from "./hypervisor.ts";
export type { Launcher, LauncherPod, Launchers } from "./launcher.ts";
export type { LogFields, Logger } from "./logger.ts";
export type {
  Link,
  Namespaces,
  NetnsHandle,
  OpenNetns,
  PodNetwork,
  PodView,
  TapWiring,
} from "./pod-network.ts";
export type { Command, CommandResult, InheritedFd, ProcessRunner } from "./process-runner.ts";
export type { Sandbox, Sandboxes } from "./sandbox.ts";
export type {
  Cache,
  CallOptions,
  Change,
  DeleteOptions,
  ListOptions,
  ObjectKey,
  Patch,
  Store,
  WriteOptions,
} from "./store.ts";
