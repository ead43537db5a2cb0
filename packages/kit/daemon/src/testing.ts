// SPDX-License-Identifier: Apache-2.0
// The door of daemon for tests.
export { DaemonHealth } from "./health.ts";
