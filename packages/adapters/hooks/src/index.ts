// SPDX-License-Identifier: Apache-2.0
export { createHookSidecars } from "./hook-sidecars.ts";
