// SPDX-License-Identifier: Apache-2.0
// One standalone machine with one VM, whose API server behaves like a cluster's.
import { join } from "node:path";
import { bridgeNetworkManifest, endTrial, FEW_PORTS, vmManifest } from "@patchbay/support";
import type { TestProject } from "vitest/node";
import { bringUp, ROOT } from "../e2e/standalone.ts";

export async function setup(project: TestProject): Promise<() => void> {
  const server = join(import.meta.dirname, "api-server.ts");
  const apiServerCommand = [process.execPath, "--conditions=@patchbay/source", server];
  const wanted = { apiPort: 16543, bridge: "pbs0", apiServerCommand };
  const machine = await bringUp(wanted, async (made) => {
    made.apply(
      bridgeNetworkManifest("blue", "pbs-blue", "10.78.1.0/24"),
      vmManifest({ name: "alpha", pcieRootPorts: FEW_PORTS }),
    );
    await made.booted("alpha");
  });
  project.provide("machine", { root: ROOT, dataDir: machine.dataDir });
  return () => {
    endTrial(machine);
  };
}
