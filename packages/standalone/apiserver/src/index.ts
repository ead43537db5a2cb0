// SPDX-License-Identifier: Apache-2.0
export { startApiServer } from "./server.ts";
export { restoreStore } from "./storage/backup.ts";
