// SPDX-License-Identifier: Apache-2.0
// The door of containerd for tests.
export { shimSocketsOf } from "./leftovers/shim-sockets.ts";
