// SPDX-License-Identifier: Apache-2.0
export { describeDelay, computeDurationMs, printSeconds } from "./messages.ts";
export { buildHistory, observeNics, type ObservedNics, withBlockedReasons } from "./nic-history.ts";
export { mergeVmHistory } from "./of-vm.ts";
export { endHistory } from "./record.ts";
