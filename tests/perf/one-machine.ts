// SPDX-License-Identifier: Apache-2.0
// Hotplugs on a standalone machine of their own. Needs what hack/install installs, and runs as root.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { bridgeNetworkManifest, eventually, Machine, vmManifest } from "@patchbay/testing";
import { measureFloor } from "./floor.ts";
import { measureHotplug } from "./hotplug.ts";
import { printComparison } from "./report.ts";

const ROOT = join(import.meta.dirname, "../..");
const BOOT_MS = 120_000;

async function measureRounds(machine: Machine, rounds: number): Promise<void> {
  machine.patchbay("image", "add", "guest", join(ROOT, ".cache/guest"));
  machine.patchbay("up", "--api-port", "16743", "--bridge", "pbp0");
  machine.apply(
    bridgeNetworkManifest("perf", "pbp-perf", "10.77.3.0/24"),
    vmManifest({ name: "perf" }),
  );
  await eventually(() => machine.findVmi("perf")?.status?.phase === "Running", {
    withinMs: BOOT_MS,
  });
  await machine.console("perf").waitForLine(/guest ready/, { timeoutMs: BOOT_MS, fromStart: true });
  // One of each by turns, so that both see the same machine.
  const ours = [];
  const floor = [];
  for (let round = 1; round <= rounds; round += 1) {
    process.stderr.write(`round ${String(round)} of ${String(rounds)}\n`);
    ours.push(await measureHotplug(machine, "perf"));
    floor.push(await measureFloor(machine, "perf"));
  }
  printComparison(ours, floor);
}

/** Prints the time from a request to the guest's line, by phase, beside the same work done by a shell script. */
export async function measureMachine(rounds: number): Promise<void> {
  const dataDir = join(mkdtempSync(join(tmpdir(), "patchbay-perf-")), "data");
  const machine = new Machine({ root: ROOT, dataDir });
  try {
    await measureRounds(machine, rounds);
  } finally {
    machine.close();
    machine.patchbay("down", "--purge");
    rmSync(dirname(dataDir), { recursive: true, force: true });
  }
}
