// SPDX-License-Identifier: Apache-2.0
// A standalone machine for a benchmark. Needs what hack/install installs, and runs as root.
import { join } from "node:path";
import { bridgeNetworkManifest, endTrial, openTrial, type Machine } from "@patchbay/support";

const ROOT = join(import.meta.dirname, "../..");

/** A network of the machine; without a subnet the guest gets no address from it. */
export interface PerfNetwork {
  readonly name: string;
  readonly bridge: string;
  readonly subnet?: string;
}

/** Assigns addresses, which the pod serves by DHCP. */
export const PERF: PerfNetwork = { name: "perf", bridge: "pbp-perf", subnet: "10.77.3.0/24" };
/** Forwards frames only. */
export const PLAIN: PerfNetwork = { name: "plain", bridge: "pbp-plain" };

/** Starts a machine with the guest image and its networks, and removes it afterwards. */
export async function withMachine(use: (machine: Machine) => Promise<void>): Promise<void> {
  const machine = await openTrial(ROOT, "perf");
  try {
    machine.patchbay("image", "add", "guest", join(ROOT, ".cache/guest"));
    machine.patchbay("up", "--api-port", "16743", "--bridge", "pbp0");
    const networks = [PERF, PLAIN];
    machine.apply(
      ...networks.map(({ name, bridge, subnet }) => bridgeNetworkManifest(name, bridge, subnet)),
    );
    await use(machine);
  } finally {
    endTrial(machine);
  }
}
