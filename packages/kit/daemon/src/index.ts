// SPDX-License-Identifier: Apache-2.0
// The public door of daemon.
export {
  addCommonFlags,
  addCriFlags,
  addHostFlags,
  toPort,
  type CommonFlags,
  type CriFlags,
  type HostFlags,
} from "./flags.ts";
export { configHealth } from "./config-health.ts";
export { createServer as createHttpServer } from "./http-server.ts";
export { runDaemon, type DaemonContext } from "./run-daemon.ts";
export { ClientAuthority } from "./https/client-authority.ts";
export { startServer, type RunningServer, type UpgradeListener } from "./https/server.ts";
export {
  certificateInFiles,
  trustInFile,
  type KeyPair,
  type Source,
  type Trust,
} from "./https/source.ts";
