// SPDX-License-Identifier: Apache-2.0
// One standalone machine with two VMs and a VMI, shared by all tests because guests are slow to boot.
import {
  bridgeNetworkManifest,
  endTrial,
  vmiManifest,
  vmManifest,
  type Machine,
} from "@patchbay/support";
import type { TestProject } from "vitest/node";
import { judgeMachine, type Stories } from "./rights.ts";
import { bringUp, ROOT } from "./standalone.ts";

/** More than any test plugs into a shared guest; with the default of 32 each boot takes 2 core-seconds more, of 6. */
const PORTS = 12;

/** Whether every test passed, including the long form. Only then an unused right is unnecessary. */
async function isWhole(project: TestProject): Promise<boolean> {
  if (process.env["PATCHBAY_LONG"] !== "1") return false;
  const { testFiles } = await project.globTestFiles();
  const reported = project.vitest.state
    .getTestModules()
    .filter((module) => module.project.name === project.name && module.state() === "passed");
  return reported.length === testFiles.length && project.config.testNamePattern === undefined;
}

/** Throws when a component lacked a right, or in a complete run has an unused one. */
export async function judgeRightsOf(
  machine: Machine,
  stories: Stories,
  project: TestProject,
): Promise<void> {
  const { unused, ...other } = await judgeMachine(machine.dataDir, stories);
  const faults = { ...other, unused: (await isWhole(project)) ? unused : [] };
  if (Object.values(faults).some((rights) => rights.length > 0)) {
    throw new Error(
      `the roles in packages/common/manifests are wrong: ${JSON.stringify(faults, null, 2)}`,
    );
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const machine = await bringUp({ apiPort: 16443, bridge: "pbt0" }, async (made) => {
    made.apply(
      bridgeNetworkManifest("blue", "pbt-blue", "10.77.1.0/24"),
      bridgeNetworkManifest("red", "pbt-red"),
      vmManifest({ name: "alpha", pcieRootPorts: PORTS }),
      vmManifest({ name: "beta", pcieRootPorts: PORTS }),
    );
    await made.booted("alpha");
    await made.booted("beta");
    made.apply(vmiManifest({ name: "gamma", pcieRootPorts: PORTS }));
    await made.booted("gamma");
  });
  const { dataDir } = machine;
  project.provide("machine", { root: ROOT, dataDir });
  return async () => {
    try {
      await judgeRightsOf(machine, "e2e", project);
    } finally {
      endTrial(machine);
    }
  };
}

declare module "vitest" {
  interface ProvidedContext {
    readonly machine: { readonly root: string; readonly dataDir: string };
  }
}
