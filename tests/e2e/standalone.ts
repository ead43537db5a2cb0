// SPDX-License-Identifier: Apache-2.0
// A standalone machine for a whole test run, started with its requirements and removed without leftovers.
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { endTrial, openTrial, type Machine } from "@patchbay/support";
import { linkLauncherImages } from "../contract/containerd/launcher-images.ts";

export const ROOT = join(import.meta.dirname, "../..");

export interface Wanted {
  readonly apiPort: number;
  readonly bridge: string;
  /** The pods' subnet; unset: a free one, which a machine that starts at the same time might choose too. */
  readonly podSubnet?: string;
  /** The Services' subnet, as above. */
  readonly serviceSubnet?: string;
  /** Program and arguments that serve the API; unset: the product's own. */
  readonly apiServerCommand?: readonly string[];
  /** Address of the API server for pods; unset: none. */
  readonly apiAddress?: string;
  /** Whether mounts below its directory propagate to pods, as on a machine with systemd. */
  readonly sharesMounts?: boolean;
}

function shareMounts(directory: string): void {
  execFileSync("mount", ["--bind", directory, directory]);
  execFileSync("mount", ["--make-shared", directory]);
}

function optionsOf({ apiPort, bridge, podSubnet, serviceSubnet, apiAddress }: Wanted) {
  return [
    "--api-port",
    String(apiPort),
    "--bridge",
    bridge,
    ...(podSubnet === undefined ? [] : ["--pod-subnet", podSubnet]),
    ...(serviceSubnet === undefined ? [] : ["--service-subnet", serviceSubnet]),
    ...(apiAddress === undefined ? [] : ["--api-address", apiAddress]),
  ];
}

/** An administrator's umask as in docs/runbooks/backup-and-restore.md: new files are private. */
const STRICT_UMASK = 0o077;

function withStrictUmask(run: () => void): void {
  const umask = process.umask(STRICT_UMASK);
  try {
    run();
  } finally {
    process.umask(umask);
  }
}

/** A running machine, filled by `fill` with the tests' objects. */
export async function bringUp(
  { apiServerCommand, sharesMounts = false, ...wanted }: Wanted,
  fill: (machine: Machine) => Promise<void>,
): Promise<Machine> {
  const machine = await openTrial(ROOT, "e2e");
  const { dataDir } = machine;
  if (sharesMounts) shareMounts(dirname(dataDir));
  if (apiServerCommand !== undefined) {
    mkdirSync(dataDir);
    const settings = { kind: "PatchbayStandalone", apiServerCommand };
    writeFileSync(join(dataDir, "standalone.json"), JSON.stringify(settings));
  }
  try {
    await linkLauncherImages(dataDir);
    withStrictUmask(() => {
      machine.patchbay("image", "add", "guest", join(ROOT, ".cache/guest"));
      machine.patchbay("up", ...optionsOf(wanted));
    });
    await fill(machine);
  } catch (error) {
    tellAndEnd(machine, error);
  }
  return machine;
}

/** @throws the failure; a failed cleanup is reported beside it */
function tellAndEnd(machine: Machine, error: unknown): never {
  try {
    endTrial(machine);
  } catch (second) {
    throw new Error(`${String(error)}\nand then: ${String(second)}`, { cause: error });
  }
  throw error;
}
