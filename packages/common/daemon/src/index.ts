// SPDX-License-Identifier: Apache-2.0
export {
  addCommonFlags,
  addCriFlags,
  addHostFlags,
  toPort,
  type CommonFlags,
  type CriFlags,
  type HostFlags,
} from "./flags.ts";
export { configHealth } from "./health.ts";
export { createServer as createHttpServer } from "./health-server.ts";
export { runDaemon, type DaemonContext } from "./run-daemon.ts";
export {
  certificateInFiles,
  ClientAuthority,
  type KeyPair,
  type Source,
  type Trust,
  trustInFile,
} from "./https/certificates.ts";
export { startServer, type RunningServer, type UpgradeListener } from "./https/server.ts";
