// SPDX-License-Identifier: Apache-2.0
export type { ServerExtensions } from "./extensions.ts";
export { startApiServer } from "./server.ts";
export { backUpStore, restoreStore } from "./storage/backup.ts";
