// SPDX-License-Identifier: Apache-2.0
// A standalone machine for a whole run of stories: comes up with what they need, and goes without a trace.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Machine } from "@patchbay/testing";

/** This checkout. */
export const ROOT = join(import.meta.dirname, "../..");

/** How the machine is to be. */
export interface Wanted {
  readonly apiPort: number;
  readonly bridge: string;
  /** Whether its API server is as strict as a cluster's. */
  readonly strict?: boolean;
  /** Where its pods find the API server; absent: nowhere. */
  readonly apiAddress?: string;
  /** Whether what is mounted below its directory shows in pods, as on a machine with systemd. */
  readonly sharesMounts?: boolean;
}

function shareMounts(directory: string): void {
  execFileSync("mount", ["--bind", directory, directory]);
  execFileSync("mount", ["--make-shared", directory]);
}

/** A machine that is up, and in which `fill` has made what the stories are about. */
export async function bringUp(
  { apiPort, bridge, apiAddress, strict = false, sharesMounts = false }: Wanted,
  fill: (machine: Machine) => Promise<void>,
): Promise<Machine> {
  const dataDir = join(mkdtempSync(join(tmpdir(), "patchbay-e2e-")), "data");
  const machine = new Machine({ root: ROOT, dataDir });
  if (sharesMounts) shareMounts(dirname(dataDir));
  if (strict) {
    mkdirSync(dataDir);
    const settings = { kind: "PatchbayStandalone", strict };
    writeFileSync(join(dataDir, "standalone.json"), JSON.stringify(settings));
  }
  machine.patchbay("image", "add", "guest", join(ROOT, ".cache/guest"));
  try {
    const address = apiAddress === undefined ? [] : ["--api-address", apiAddress];
    machine.patchbay("up", "--api-port", String(apiPort), "--bridge", bridge, ...address);
    await fill(machine);
  } catch (error) {
    tearDown(machine);
    throw error;
  }
  return machine;
}

/** Takes the machine down, with its data. */
export function tearDown(machine: Machine): void {
  machine.close();
  const outcome = machine.try(["patchbay", "--data-dir", machine.dataDir, "down", "--purge"]);
  if (outcome.code !== 0) throw new Error(`patchbay down: ${outcome.stderr}`);
  const directory = dirname(machine.dataDir);
  if (readFileSync("/proc/self/mounts", "utf8").includes(` ${directory} `)) {
    execFileSync("umount", [directory]);
  }
  rmSync(directory, { recursive: true });
}
