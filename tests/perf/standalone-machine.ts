// SPDX-License-Identifier: Apache-2.0
// A standalone machine of its own for a benchmark. Needs what hack/install installs, and runs as root.
import { join } from "node:path";
import { bridgeNetworkManifest, endTrial, openTrial, type Machine } from "@patchbay/support";

const ROOT = join(import.meta.dirname, "../..");

/** A network of the machine; without a subnet the guest gets no address from it. */
export interface PerfNetwork {
  readonly name: string;
  readonly bridge: string;
  readonly subnet?: string;
}

/** Gives addresses, which the pod hands on by DHCP. */
export const PERF: PerfNetwork = { name: "perf", bridge: "pbp-perf", subnet: "10.77.3.0/24" };
/** Carries frames. */
export const PLAIN: PerfNetwork = { name: "plain", bridge: "pbp-plain" };

/** Brings a machine up with the guest image and its networks, and leaves nothing of it behind. */
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
