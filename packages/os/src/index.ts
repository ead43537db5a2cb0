// SPDX-License-Identifier: Apache-2.0
// The public door of os.
export { readBootId } from "./boot.ts";
export { createClock } from "./clock.ts";
export { createFiles } from "./files/files.ts";
export { limitProcesses } from "./processes/process-limit.ts";
export { createProcessRunner } from "./processes/process-runner.ts";
export { createChildStarter } from "./children/child.ts";
export { createLaunchers, type LaunchersOptions } from "./launchers/launchers.ts";
export { readProcessStartTime, waitForProcessEnd } from "./processes/process-end.ts";
export { createNamespaces, readOwnNetnsInode } from "./namespaces.ts";
export { replaceDirectory } from "./files/replace-directory.ts";
export { connectUnixSocket, type SocketPlace } from "./sockets/unix-socket.ts";
export { startRelay } from "./sockets/relay.ts";
export { takeFileLock, type FileLock, type LockHolder } from "./files/file-lock.ts";
export {
  isRunning,
  signalProcess,
  startDaemon,
  waitForLine,
  type Daemon,
  type DaemonProgram,
  type ProcessName,
} from "./processes/daemon.ts";
