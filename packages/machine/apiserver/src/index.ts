// SPDX-License-Identifier: Apache-2.0
// The public door of apiserver.
export { startApiServer } from "./server.ts";
export { restoreStore } from "./storage/backup.ts";
