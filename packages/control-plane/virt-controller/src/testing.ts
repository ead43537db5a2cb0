// SPDX-License-Identifier: Apache-2.0
// Parts of virt-controller for tests of other packages.
export { runController } from "./compose.ts";
