// SPDX-License-Identifier: Apache-2.0
// The public door of node-runtime.
export { LAUNCHER_IMAGE } from "./images.ts";
export { runNode } from "./compose.ts";
