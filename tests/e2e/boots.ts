// SPDX-License-Identifier: Apache-2.0
// A machine for tests that boot their own VMs, beside one running VM.
import { bridgeNetworkManifest, endTrial, vmManifest } from "@patchbay/support";
import type { TestProject } from "vitest/node";
import { judgeRightsOf } from "./setup.ts";
import { bringUp, ROOT } from "./standalone.ts";

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const networks = { podSubnet: "10.88.250.0/24", serviceSubnet: "10.111.0.0/16" };
  const wanted = { apiPort: 16743, bridge: "pbb0", ...networks };
  const machine = await bringUp(wanted, async (made) => {
    made.apply(
      bridgeNetworkManifest("blue", "pbb-blue", "10.77.5.0/24"),
      bridgeNetworkManifest("red", "pbb-red"),
      vmManifest({ name: "beta" }),
    );
    await made.booted("beta");
  });
  project.provide("machine", { root: ROOT, dataDir: machine.dataDir });
  return async () => {
    try {
      await judgeRightsOf(machine, "boots", project);
    } finally {
      endTrial(machine);
    }
  };
}
