// SPDX-License-Identifier: Apache-2.0
// The history of NIC operations for clients. A separate entry point, so that small programs load little.
export { printSeconds as saySeconds, durationOf, describeDelay as sayHold } from "./messages.ts";
export { mergeVmHistory as historyOfVm } from "./of-vm.ts";
