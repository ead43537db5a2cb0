// SPDX-License-Identifier: Apache-2.0
export { shimSocketPaths } from "./leftovers/shim-sockets.ts";
