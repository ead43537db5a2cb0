// SPDX-License-Identifier: Apache-2.0
// Public interface of the test support package.
export { findUndocumented, metricNamesOf, samplesIn } from "./documented-metrics.ts";
export {
  installPlugin,
  installThirdPartyCni,
  THIRD_PARTY_PLUGIN,
  thirdPartyNetwork,
} from "./cnis/install.ts";
export { OpenVswitch } from "./dataplanes/open-vswitch.ts";
export { needTestpmd, Testpmd, type Forwarding } from "./dataplanes/testpmd.ts";
export { ClaimDriver } from "./claim-driver.ts";
export { eventually } from "./eventually.ts";
export { findFreePort } from "./free-port.ts";
export { openInode } from "./open-inode.ts";
export { openGuestConsole, type GuestConsole } from "./guest-console.ts";
export { aPod, aVm, aVmi, VM_OWNER, type NicSketch } from "./builders.ts";
export { Machine, type CommandResult } from "./machine/machine.ts";
export {
  bridgeNetworkManifest,
  FEW_PORTS,
  ifaceManifest,
  KERNEL_ARGS,
  networkManifest,
  vmiManifest,
  vmManifest,
  type ManifestNic,
} from "./manifests.ts";
export { diskVmManifest, obedientUserData } from "./debian.ts";
export { fillClaim } from "./filled-claim.ts";
export { createBuiltChildStarter } from "./programs/children.ts";
export { executableOf, type ProgramName } from "./programs/executables.ts";
export { judgeRights, type RightsFinding } from "./rights.ts";
export { Plugger } from "./plugger.ts";
export { RunningGuests } from "./machine/running-guests.ts";
export { SecondNode } from "./machine/second-node.ts";
export { needProgram, NOT_POSSIBLE } from "./programs/need-program.ts";
export { run } from "./programs/run.ts";
export { netnsOfPod } from "./sandbox.ts";
export { SEED } from "./random/seed.ts";
export { endTrial, openTrial } from "./machine/trial-machine.ts";
