// SPDX-License-Identifier: Apache-2.0
// What people are told of the operations on NICs, for who loads little.
export { saySeconds } from "../ifaces/seconds.ts";
export { historyOfVm } from "./of-vm.ts";
export { durationOf, sayHold } from "./words.ts";
