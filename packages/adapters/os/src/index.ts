// SPDX-License-Identifier: Apache-2.0
export {
  isRunning,
  killAndWait,
  type ProcessName,
  readBootId,
  readProcessStartTime,
  signalProcess,
  waitForProcessEnd,
} from "./processes/process-identity.ts";
export { createClock } from "./clock.ts";
export { createFiles, installProgram, openNewFile } from "./files/files.ts";
export { claimStateFormat } from "./files/state-format.ts";
export {
  type GrowingFile,
  moveContent,
  openGrowingFile,
  renameFile,
  readFileSize,
  waitForLine,
  watchFile,
} from "./files/growing-file.ts";
export { limitControlGroup, setOomScore } from "./processes/resource-limits.ts";
export { createProcessRunner, limitProcesses } from "./processes/process-runner.ts";
export { createChildStarter } from "./children/child.ts";
export { createFrameWatch, createLinkCounters, createLinkWatch, createNetlink } from "./links.ts";
export { createLauncherDisks } from "./launchers/launcher-disks.ts";
export { createLaunchers } from "./launchers/launchers.ts";
export {
  createVhostDirectories,
  type VhostDirectoriesOptions,
} from "./launchers/vhost-directories.ts";
export { readSelinux, type Selinux } from "./launchers/selinux.ts";
export { createVhostSockets } from "./launchers/vhost-sockets.ts";
export { createNamespaces, listListeningPorts, readNetnsInode } from "./namespaces.ts";
export {
  isSocketServed,
  connectUnixSocket,
  openVolumeSocket,
  publishSocket,
  touchFile,
} from "./unix-sockets.ts";
export { acquireFileLock, type FileLock, type LockHolder } from "./files/file-lock.ts";
export { runInForeground, startDetached } from "./processes/start-process.ts";
export { createDeviceNodes } from "./files/device-nodes.ts";
export { computeFileBytes, createClaimDisk } from "./volumes/claim-disk.ts";
export { listReadOnlyMounts } from "./volumes/mounts.ts";
export { createVolumeDisk } from "./volumes/volume-disk.ts";
