// SPDX-License-Identifier: Apache-2.0
// The public door of apiserver.
export { startApiServer } from "./server.ts";
export type { ApiServerOptions, KeyPair, RunningApiServer } from "./server.ts";
export type { TokenEntry } from "./auth/authentication.ts";
export { restoreStore } from "./storage/backup.ts";
