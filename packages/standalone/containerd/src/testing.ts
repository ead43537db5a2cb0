// SPDX-License-Identifier: Apache-2.0
export { shimSocketsOf } from "./leftovers/shim-sockets.ts";
