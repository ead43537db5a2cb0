// SPDX-License-Identifier: Apache-2.0
// A guest with a disk on each bus, booted by EFI without secure boot, finds them all.
import { diskVmManifest, KERNEL_ARGS } from "@patchbay/support";
import { beforeAll, expect, test } from "vitest";
import { machine } from "../machine.ts";

const NAME = "buses";
const BOOT_MS = 120_000;

const empty = (capacity: string): Readonly<Record<string, unknown>> => ({
  emptyDisk: { capacity },
});

const DISKS = [
  { name: "one", volume: empty("8Mi"), disk: { disk: { bus: "virtio" }, serial: "first" } },
  { name: "two", volume: empty("16Mi"), disk: { disk: { bus: "sata" } } },
  { name: "three", volume: empty("32Mi"), disk: { disk: { bus: "scsi", readonly: true } } },
  {
    name: "seed",
    volume: { cloudInitConfigDrive: { userData: "#cloud-config\n{}\n" } },
    disk: { cdrom: {} },
  },
];

const FIRMWARE = {
  bootloader: { efi: { secureBoot: false } },
  kernelBoot: {
    kernelArgs: KERNEL_ARGS,
    container: { image: "guest", kernelPath: "/vmlinuz-full", initrdPath: "/initrd-full" },
  },
};

beforeAll(async () => {
  machine.apply(diskVmManifest({ name: NAME, disks: DISKS, firmware: FIRMWARE }));
  await machine.booted(NAME);
  return () => {
    machine.delete("vm", NAME);
  };
}, BOOT_MS);

test("each disk is present with its size, access mode and name", async () => {
  const { lines } = await machine.console(NAME).run("disks");
  const found = lines.map((line) => line.replace(/^.*?disk \S+ /, "").trimEnd()).sort();
  expect(found.filter((line) => !line.startsWith("kib 0 "))).toEqual([
    "kib 16384 ro 0 serial  name",
    "kib 32768 ro 1 serial  name",
    expect.stringMatching(/^kib \d+ ro 1 serial {2}name config-2$/),
    "kib 8192 ro 0 serial first name",
  ]);
});
