// SPDX-License-Identifier: Apache-2.0
// The public door of os.
export { readBootId } from "./boot.ts";
export { createClock } from "./clock.ts";
export { createFiles } from "./files/files.ts";
export {
  openGrowingFile,
  renameFile,
  sizeOfFile,
  watchFile,
  type GrowingFile,
} from "./files/growing-file.ts";
export { openNewFile } from "./files/new-file.ts";
export { limitControlGroup } from "./processes/control-group.ts";
export { setOomScore } from "./processes/oom-score.ts";
export { limitProcesses } from "./processes/process-limit.ts";
export { createProcessRunner } from "./processes/process-runner.ts";
export { createChildStarter } from "./children/child.ts";
export { createLinkCounters } from "./links/link-counters.ts";
export { createLinkWatch } from "./links/link-watch.ts";
export { createNetlink } from "./links/netlink.ts";
export { createLauncherDisks } from "./launchers/launcher-disks.ts";
export { createLaunchers } from "./launchers/launchers.ts";
export {
  createVhostDirectories,
  type VhostDirectoriesOptions,
} from "./launchers/vhost-directories.ts";
export { readSelinux, type Selinux } from "./launchers/selinux.ts";
export { createVhostSockets } from "./launchers/vhost-sockets.ts";
export { createNamespaces, readNetnsInode } from "./namespaces.ts";
export { answersAt, publishSocket, showAlive } from "./sockets/socket-file.ts";
export { openVolumeSocket } from "./sockets/volume-socket.ts";
export { connectUnixSocket } from "./sockets/unix-socket.ts";
export { installProgram } from "./files/install-program.ts";
export { takeFileLock, type FileLock } from "./files/file-lock.ts";
export { runInForeground } from "./processes/foreground.ts";
export { startDetached } from "./processes/detached.ts";
export {
  isRunning,
  readProcessStartTime,
  signalProcess,
  type ProcessName,
} from "./processes/process-name.ts";
export { killAndWait, waitForProcessEnd } from "./processes/process-end.ts";
export { waitForLine } from "./files/wait-for-line.ts";
export { createDeviceNodes } from "./files/device-nodes.ts";
export { createClaimDisk } from "./volumes/claim-disk.ts";
export { createVolumeDisk } from "./volumes/volume-disk.ts";
