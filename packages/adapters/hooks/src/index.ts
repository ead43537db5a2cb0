// SPDX-License-Identifier: Apache-2.0
// The public door of hooks.
export { createHookSidecars } from "./hook-sidecars.ts";
