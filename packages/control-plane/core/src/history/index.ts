// SPDX-License-Identifier: Apache-2.0
export { describeDelay, durationOf, printSeconds } from "./messages.ts";
export { historyOf, seeNics, type SeenNics, withHindrances } from "./nic-history.ts";
export { mergeVmHistory } from "./of-vm.ts";
export { endedHistory } from "./record.ts";
