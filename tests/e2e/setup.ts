// SPDX-License-Identifier: Apache-2.0
// One standalone machine with two VMs and a VMI for all stories; guests are slow to boot and are shared.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { bridgeNetworkManifest, Machine, vmiManifest, vmManifest } from "@patchbay/testing";
import type { TestProject } from "vitest/node";
import { judgeMachine } from "./rights.ts";

const ROOT = join(import.meta.dirname, "../..");

/** Whether every story was told to its end: only then a right that was not used is not needed. */
async function isWhole(project: TestProject): Promise<boolean> {
  const { testFiles } = await project.globTestFiles();
  const told = project.vitest.state
    .getTestModules()
    .filter((module) => module.project.name === project.name && module.state() === "passed");
  return told.length === testFiles.length && project.config.testNamePattern === undefined;
}

async function judgeRightsOf(machine: Machine, project: TestProject): Promise<void> {
  const { unused, ...other } = await judgeMachine(machine.dataDir);
  const faults = { ...other, unused: (await isWhole(project)) ? unused : [] };
  if (Object.values(faults).some((rights) => rights.length > 0)) {
    throw new Error(
      `the roles in packages/manifests are wrong: ${JSON.stringify(faults, null, 2)}`,
    );
  }
}

function tearDown(machine: Machine): void {
  machine.close();
  const outcome = machine.try(["patchbay", "--data-dir", machine.dataDir, "down", "--purge"]);
  if (outcome.code !== 0) throw new Error(`patchbay down: ${outcome.stderr}`);
  rmSync(dirname(machine.dataDir), { recursive: true });
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dataDir = join(mkdtempSync(join(tmpdir(), "patchbay-e2e-")), "data");
  const machine = new Machine({ root: ROOT, dataDir });
  machine.patchbay("image", "add", "guest", join(ROOT, ".cache/guest"));
  try {
    machine.patchbay("up", "--api-port", "16443", "--bridge", "pbt0");
    machine.apply(
      bridgeNetworkManifest("blue", "pbt-blue", "10.77.1.0/24"),
      bridgeNetworkManifest("red", "pbt-red"),
      vmManifest({ name: "alpha" }),
      vmManifest({ name: "beta" }),
    );
    await machine.booted("alpha");
    await machine.booted("beta");
    machine.apply(vmiManifest({ name: "gamma" }));
    await machine.booted("gamma");
  } catch (error) {
    tearDown(machine);
    throw error;
  }
  project.provide("machine", { root: ROOT, dataDir });
  return async () => {
    try {
      await judgeRightsOf(machine, project);
    } finally {
      tearDown(machine);
    }
  };
}

declare module "vitest" {
  interface ProvidedContext {
    readonly machine: { readonly root: string; readonly dataDir: string };
  }
}
