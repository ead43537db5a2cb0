// SPDX-License-Identifier: Apache-2.0
// The public door of testing.
export { eventually } from "./eventually.ts";
export {
  openGuestConsole,
  type GuestAnswer,
  type GuestConsole,
  type GuestConsoleAddress,
} from "./guest-console.ts";
export type { WaitForLine } from "./guest-log.ts";
export { aPod, aVm, aVmi, type NicSketch } from "./builders.ts";
export { Machine, type CommandOutcome, type MachineAddress } from "./machine.ts";
export {
  bridgeNetworkManifest,
  ifaceManifest,
  KERNEL_ARGS,
  networkManifest,
  vmiManifest,
  vmManifest,
  type GuestOptions,
  type ManifestNic,
} from "./manifests.ts";
export { judgeRights, type RightsFinding } from "./rights.ts";
