// SPDX-License-Identifier: Apache-2.0
// A VM gets a node file as a disk only after an administrator allows it.
import { chownSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { diskVmManifest, eventually, KERNEL_ARGS } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CHANGE_MS, machine } from "../machine.ts";

const NAME = "host-disk";
const LAUNCHER = 107;
const MEBIBYTE = 2 ** 20;
const BOOT_MS = 180_000;
let directory = "";

/** Sets the cluster's host disk configuration; null removes it. */
function allow(hostDiskDirectories: readonly string[] | null, gates: readonly string[] | null) {
  const developerConfiguration = { featureGates: gates };
  const configuration = { hostDiskDirectories, developerConfiguration };
  machine.patch("kubevirt", "kubevirt", { spec: { configuration } });
}

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-disks-"));
  chownSync(directory, LAUNCHER, LAUNCHER);
});
afterAll(() => {
  machine.deleteIfPresent("vm", NAME);
  allow(null, null);
  rmSync(directory, { recursive: true });
});

async function refusalOf(want: string): Promise<void> {
  const isReported = (): boolean => {
    const conditions = machine.findVm(NAME)?.status?.conditions ?? [];
    const refused = conditions.find(({ reason }) => reason === "HostDiskNotAllowed");
    return refused?.message?.includes(want) === true;
  };
  await eventually(isReported, { withinMs: CHANGE_MS });
}

test(
  "a VM uses a file of the node only when both gate and directory are allowed",
  { timeout: BOOT_MS },
  async () => {
    const path = join(directory, "data.img");
    const container = { image: "guest", kernelPath: "/vmlinux", initrdPath: "/initrd" };
    const volume = { hostDisk: { path, type: "DiskOrCreate", capacity: "8Mi" } };
    machine.apply(
      diskVmManifest({
        name: NAME,
        disks: [{ name: "data", volume }],
        firmware: { kernelBoot: { kernelArgs: KERNEL_ARGS, container } },
      }),
    );
    await refusalOf("featureGates");
    allow([tmpdir()], ["HostDisk"]);
    await refusalOf("hostDiskDirectories");
    expect(machine.findVmi(NAME)?.status?.phase).not.toBe("Running");
    allow([directory], ["HostDisk"]);
    await machine.booted(NAME);
    expect(statSync(path)).toMatchObject({ size: 8 * MEBIBYTE, uid: LAUNCHER });
  },
);
