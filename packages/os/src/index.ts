// SPDX-License-Identifier: Apache-2.0
// The public door of os.
export { createClock } from "./clock.ts";
export { createFiles } from "./files.ts";
export { limitProcesses } from "./process-limit.ts";
export { createProcessRunner } from "./process-runner.ts";
export { createChildStarter } from "./child.ts";
export { createLaunchers, type LaunchersOptions } from "./launchers.ts";
export { readProcessStartTime, waitForProcessEnd } from "./process-end.ts";
export { createNamespaces } from "./namespaces.ts";
export { replaceDirectory } from "./replace-directory.ts";
export { connectUnixSocket, type SocketPlace } from "./unix-socket.ts";
export { startRelay } from "./relay.ts";
export { takeFileLock, type FileLock, type LockHolder } from "./file-lock.ts";
export {
  isRunning,
  signalProcess,
  startDaemon,
  waitForLine,
  type Daemon,
  type DaemonProgram,
  type ProcessName,
} from "./daemon.ts";
