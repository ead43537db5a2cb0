// SPDX-License-Identifier: Apache-2.0
// The public door of standalone.
export { runApiServer, type ApiServerRun } from "./api-server.ts";
export { down, type DownOptions } from "./down.ts";
export { up, type UpOptions } from "./up.ts";
