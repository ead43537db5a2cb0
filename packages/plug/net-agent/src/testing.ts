// SPDX-License-Identifier: Apache-2.0
// The parts of net-agent that tests run on their own: its only other door is the program.
export { runLoop } from "./loop.ts";
export { BY_NETWORK, networksAskedBy } from "./wake.ts";
