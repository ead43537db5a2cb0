// SPDX-License-Identifier: Apache-2.0
// A standalone machine for a whole run of stories: comes up with what they need, and goes without a trace.
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { endTrial, openTrial, type Machine } from "@patchbay/support";
import { linkLauncherImages } from "../contract/containerd/launcher-images.ts";

/** This checkout. */
export const ROOT = join(import.meta.dirname, "../..");

/** How the machine is to be. */
export interface Wanted {
  readonly apiPort: number;
  readonly bridge: string;
  /** Of its pods; absent: a free one, which another machine that comes up in the same moment would choose as well. */
  readonly podSubnet?: string;
  /** Of its Services, as above. */
  readonly serviceSubnet?: string;
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

/** As an administrator's shell may have it, and docs/runbooks/backup-and-restore.md: no other user reads new files. */
const STRICT_UMASK = 0o077;

function withStrictUmask(run: () => void): void {
  const umask = process.umask(STRICT_UMASK);
  try {
    run();
  } finally {
    process.umask(umask);
  }
}

/** A machine that is up, and in which `fill` has made what the stories are about. */
export async function bringUp(
  { strict = false, sharesMounts = false, ...wanted }: Wanted,
  fill: (machine: Machine) => Promise<void>,
): Promise<Machine> {
  const machine = await openTrial(ROOT, "e2e");
  const { dataDir } = machine;
  if (sharesMounts) shareMounts(dirname(dataDir));
  if (strict) {
    mkdirSync(dataDir);
    const settings = { kind: "PatchbayStandalone", strict };
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

/** @throws what failed; and beside it, not in its place, what of the machine could not be removed */
function tellAndEnd(machine: Machine, error: unknown): never {
  try {
    endTrial(machine);
  } catch (second) {
    throw new Error(`${String(error)}\nand then: ${String(second)}`, { cause: error });
  }
  throw error;
}
