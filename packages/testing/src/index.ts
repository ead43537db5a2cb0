// SPDX-License-Identifier: Apache-2.0
// The public door of testing.
export {
  openGuestConsole,
  type GuestAnswer,
  type GuestConsole,
  type GuestConsoleAddress,
} from "./guest-console.ts";
export type { WaitForLine } from "./guest-log.ts";
