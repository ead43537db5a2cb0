// SPDX-License-Identifier: Apache-2.0
// Tables of disk images and claim files that refer to node files or exceed the disk. The short form of the tests uses
// the first rows of each.
import { readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { names } from "@patchbay/api";
import { expect, test } from "vitest";
import type { RuntimeMachine } from "../../contract/node-runtime/machine.ts";
import { readOut, scriptPod } from "../containers/pod-machine.ts";
import { addDiskImage, claimPod, imagePod, whyFailed } from "./disk-pods.ts";

/** Attacks built with common tools, which the launcher image contains. */
const WORKSHOP = `set -e; cd /out; create() { qemu-img create -q -f qcow2 "$@"; }
  create -u -F raw -b /etc/shadow shadow.qcow2 1M
  create -u -F raw -b nbd://127.0.0.1:10809/disk nbd.qcow2 1M
  create -o data_file=/out/shadow,data_file_raw=on data.qcow2 1M
  create huge.qcow2 1M
  create -o cluster_size=2M large.qcow2 1P
  create -u -F raw -b /etc/shadow inner.qcow2 1M
  qemu-img convert -O qcow2 -f raw inner.qcow2 outer.qcow2
  echo ready >ready`;

export type DiskImages = ReadonlyMap<string, Buffer>;

/** Runs the attacker's tools in a pod and reads the resulting images. */
export async function makeDiskImages(machine: RuntimeMachine): Promise<DiskImages> {
  const images = new Map<string, Buffer>();
  await machine.create(scriptPod("workshop", WORKSHOP));
  await readOut(machine, "workshop", "ready");
  const { metadata } = (await machine.pod("workshop")) ?? {};
  const volumes = join(machine.path("pods", metadata?.uid ?? ""), names.EMPTY_DIR_VOLUMES);
  for (const name of ["shadow", "nbd", "data", "huge", "large", "outer"]) {
    images.set(name, readFileSync(join(volumes, "out", `${name}.qcow2`)));
  }
  await machine.clear();
  return images;
}

/** A copy of an attacker's image. */
export function imageOf(images: DiskImages, name: string): Buffer {
  const bytes = images.get(name);
  if (bytes === undefined) throw new Error(`the attacker's tools did not make ${name}`);
  return Buffer.from(bytes);
}

/** The image with `from` replaced by `to`. */
function patched(bytes: Buffer, from: Buffer, to: Buffer): Buffer {
  const at = bytes.indexOf(from);
  if (at < 0) throw new Error(`the image does not contain ${from.toString("hex")}`);
  to.copy(bytes, at);
  return bytes;
}

/** Writes a size into a qcow2 header. Source: QEMU docs/interop/qcow2, bytes 24 to 31. */
function sized(header: Buffer, bytes: bigint): Buffer {
  header.writeBigUInt64BE(bytes, 24);
  return header;
}

export const DESCRIPTOR = `# Disk DescriptorFile
version=1
CID=fffffffe
parentCID=ffffffff
createType="monolithicFlat"
RW 2048 FLAT "/etc/shadow" 0
`;

interface RefusedImage {
  readonly number: number;
  readonly name: string;
  readonly make: (images: DiskImages) => Buffer;
  readonly reason: string;
}

export const REFUSED_IMAGES: readonly RefusedImage[] = [
  {
    number: 71,
    name: "an image whose backing file is /etc/shadow",
    make: (images) => imageOf(images, "shadow"),
    reason: "has a backing file, which is never opened",
  },
  {
    number: 74,
    name: "an image whose data is in /etc/shadow",
    make: (images) =>
      patched(imageOf(images, "data"), Buffer.from("/out/shadow"), Buffer.from("/etc/shadow")),
    reason: "has an external data file, which is never opened",
  },
  {
    number: 75,
    name: "a vmdk whose extent is /etc/shadow",
    make: () => Buffer.from(DESCRIPTOR.padEnd(4096, "\n")),
    reason: "is a vmdk image, only raw and qcow2 are known",
  },
  {
    number: 72,
    name: "an image whose backing file is on the network",
    make: (images) => imageOf(images, "nbd"),
    reason: "has a backing file, which is never opened",
  },
  {
    number: 76,
    name: "a disk of 10 EiB",
    make: (images) => sized(imageOf(images, "huge"), 10n << 60n),
    reason: "is no qcow2 image that can be used",
  },
  {
    number: 76,
    name: "a disk of 1 PiB",
    make: (images) => imageOf(images, "large"),
    reason: "are allowed; make the disk smaller",
  },
];

export const LINK_TARGETS = [
  "/etc/shadow",
  "/run/launcher/libvirt/libvirt-sock",
  "/proc/1/environ",
  "../secret",
] as const;

interface RefusedClaim {
  readonly fill: string;
  readonly reason: string;
}

export const REFUSED_CLAIMS: readonly RefusedClaim[] = [
  { fill: "ln -s /etc/passwd disk.img", reason: "is a symbolic link" },
  { fill: "ln -s nowhere disk.img", reason: "is a symbolic link" },
  { fill: "mkfifo disk.img", reason: "is no regular file (fifo)" },
  { fill: "mkdir disk.img", reason: "is no regular file (directory)" },
  { fill: "echo x >other; ln other disk.img", reason: "has other hard links" },
  { fill: "truncate -s 10T disk.img", reason: "are allowed; make the disk smaller" },
  {
    fill: "qemu-img create -q -f qcow2 disk.img 1M",
    reason: "is a qcow2 image, and is used as raw",
  },
];

/** A running machine and the attacker's images on it. */
export interface DiskBench {
  readonly machine: RuntimeMachine;
  readonly images: DiskImages;
}

/** Defines a test per row; `bench` returns the state of the file's hooks. */
export function testRefusedDisks(
  bench: () => DiskBench,
  rows: {
    readonly images: readonly RefusedImage[];
    readonly links: readonly string[];
    readonly claims: readonly RefusedClaim[];
  },
): void {
  test.each(rows.images)("attack $number: rejects $name", async ({ make, reason, number }) => {
    const { machine, images } = bench();
    const name = `disk-${String(number)}`;
    await addDiskImage(machine, { name, path: "disk/disk.qcow2" }, make(images));
    await machine.create(imagePod("a", name, "true"));
    const message = await whyFailed(machine, "a");
    expect(message).toContain("prepare-disks: disk root: /run/volumes/root/disk/disk.qcow2");
    expect(message).toContain(reason);
  });

  test.each(rows.links)("attack 78: rejects a disk that is a link to %s", async (target) => {
    const { machine } = bench();
    await addDiskImage(machine, { name: "link", path: "disk/disk.img" }, (path) => {
      symlinkSync(target, path);
    });
    await machine.create(imagePod("a", "link", "true"));
    const message = await whyFailed(machine, "a");
    expect(message).toContain("copy-files: /disk/disk.img: is a symbolic link, or behind one");
  });

  test.each(rows.claims)(
    "attack 79: rejects a claim's file made by `$fill`",
    async ({ fill, reason }) => {
      const { machine } = bench();
      await machine.create(claimPod("a", fill));
      const message = await whyFailed(machine, "a");
      expect(message).toContain("prepare-disks: disk data: /run/volumes/root/disk.img");
      expect(message).toContain(reason);
    },
  );
}
