// SPDX-License-Identifier: Apache-2.0
// The parts of virt-controller that tests run on their own: its only other door is the program.
export { runController } from "./compose.ts";
