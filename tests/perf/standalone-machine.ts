// SPDX-License-Identifier: Apache-2.0
// A standalone machine of its own for a benchmark. Needs what hack/install installs, and runs as root.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { bridgeNetworkManifest, Machine } from "@patchbay/testing";

const ROOT = join(import.meta.dirname, "../..");

/** Brings a machine up with the guest image and the network `perf`, and leaves nothing of it behind. */
export async function withMachine(use: (machine: Machine) => Promise<void>): Promise<void> {
  const dataDir = join(mkdtempSync(join(tmpdir(), "patchbay-perf-")), "data");
  const machine = new Machine({ root: ROOT, dataDir });
  try {
    machine.patchbay("image", "add", "guest", join(ROOT, ".cache/guest"));
    machine.patchbay("up", "--api-port", "16743", "--bridge", "pbp0");
    machine.apply(bridgeNetworkManifest("perf", "pbp-perf", "10.77.3.0/24"));
    await use(machine);
  } finally {
    machine.close();
    machine.patchbay("down", "--purge");
    rmSync(dirname(dataDir), { recursive: true, force: true });
  }
}
