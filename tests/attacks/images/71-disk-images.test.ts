// SPDX-License-Identifier: Apache-2.0
// What becomes of disk images that reach for files that are not theirs, or for more room than there is?
import { readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { names } from "@patchbay/api";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { RuntimeMachine } from "../../contract/node-runtime/machine.ts";
import { IMAGES_MS, readOut, scriptPod } from "../containers/pod-machine.ts";
import { addDiskImage, claimPod, COPY_MIB, imagePod, whyFailed } from "./disk-pods.ts";

/** What the attacker makes with tools that everybody has; in the launcher's image since that is at hand. */
const WORKSHOP = `set -e; cd /out; create() { qemu-img create -q -f qcow2 "$@"; }
  create -u -F raw -b /etc/shadow shadow.qcow2 1M
  create -u -F raw -b nbd://127.0.0.1:10809/disk nbd.qcow2 1M
  create -o data_file=/out/shadow,data_file_raw=on data.qcow2 1M
  create huge.qcow2 1M
  create -o cluster_size=2M large.qcow2 1P
  create -u -F raw -b /etc/shadow inner.qcow2 1M
  qemu-img convert -O qcow2 -f raw inner.qcow2 outer.qcow2
  echo ready >ready`;

let machine: RuntimeMachine;
const made = new Map<string, Buffer>();

beforeAll(async () => {
  machine = await RuntimeMachine.start();
  await machine.create(scriptPod("workshop", WORKSHOP));
  await readOut(machine, "workshop", "ready");
  const { metadata } = (await machine.pod("workshop")) ?? {};
  const volumes = join(machine.path("pods", metadata?.uid ?? ""), names.EMPTY_DIR_VOLUMES);
  for (const name of ["shadow", "nbd", "data", "huge", "large", "outer"]) {
    made.set(name, readFileSync(join(volumes, "out", `${name}.qcow2`)));
  }
  await machine.clear();
}, IMAGES_MS);
afterEach(async () => {
  await machine.clear();
});
afterAll(async () => {
  await machine.close();
});

function image(name: string): Buffer {
  const bytes = made.get(name);
  if (bytes === undefined) throw new Error(`the workshop has not made ${name}`);
  return Buffer.from(bytes);
}

/** The image with other bytes in a place. */
function patched(name: string, was: Buffer, is: Buffer): Buffer {
  const bytes = image(name);
  const at = bytes.indexOf(was);
  if (at < 0) throw new Error(`${name} does not have ${was.toString("hex")}`);
  is.copy(bytes, at);
  return bytes;
}

/** Size that the header tells. Source: QEMU docs/interop/qcow2, bytes 24 to 31. */
function sized(bytes: bigint): Buffer {
  const header = image("huge");
  header.writeBigUInt64BE(bytes, 24);
  return header;
}

const DESCRIPTOR = `# Disk DescriptorFile
version=1
CID=fffffffe
parentCID=ffffffff
createType="monolithicFlat"
RW 2048 FLAT "/etc/shadow" 0
`;

const REFUSED: readonly {
  readonly number: number;
  readonly name: string;
  readonly make: () => Buffer;
  readonly reason: string;
}[] = [
  {
    number: 71,
    name: "an image whose backing file is /etc/shadow",
    make: () => image("shadow"),
    reason: "has a backing file, which is never opened",
  },
  {
    number: 72,
    name: "an image whose backing file is on the network",
    make: () => image("nbd"),
    reason: "has a backing file, which is never opened",
  },
  {
    number: 74,
    name: "an image whose data is in /etc/shadow",
    make: () => patched("data", Buffer.from("/out/shadow"), Buffer.from("/etc/shadow")),
    reason: "has an external data file, which is never opened",
  },
  {
    number: 75,
    name: "a vmdk whose extent is /etc/shadow",
    make: () => Buffer.from(DESCRIPTOR.padEnd(4096, "\n")),
    reason: "is a vmdk image, only raw and qcow2 are known",
  },
  {
    number: 76,
    name: "a disk of 10 EiB",
    make: () => sized(10n << 60n),
    reason: "is no qcow2 image that can be used",
  },
  {
    number: 76,
    name: "a disk of 1 PiB",
    make: () => image("large"),
    reason: "are allowed; make the disk smaller",
  },
];

test.each(REFUSED)("attack $number: $name is refused", async ({ make, reason, number }) => {
  const name = `disk-${String(number)}`;
  await addDiskImage(machine, { name, path: "disk/disk.qcow2" }, make());
  await machine.create(imagePod("a", name, "true"));
  const said = await whyFailed(machine, "a");
  expect(said).toContain("prepare-disks: disk root: /run/volumes/root/disk/disk.qcow2");
  expect(said).toContain(reason);
});

/** What a guest gets to see in the first sectors, and how QEMU takes each file of the chain. */
const LOOK = `qemu-img info --backing-chain /run/disks/root.qcow2 | while read -r a b c d; do
    [ "$a $b" != "file format:" ] || echo "$c"; done >/out/formats
  qemu-img dd -f qcow2 -O raw bs=1024 count=1 if=/run/disks/root.qcow2 of=/out/sectors`;

test("attack 73: a qcow2 file in a qcow2 file named raw is bytes that the guest sees", async () => {
  await addDiskImage(machine, { name: "nested", path: "disk/disk.raw" }, image("outer"));
  await machine.create(imagePod("a", "nested", LOOK));
  expect(await readOut(machine, "a", "formats")).toBe("qcow2\nqcow2\n");
  const sectors = await readOut(machine, "a", "sectors");
  expect(sectors).toMatch(/^QFI/);
  expect(sectors).toContain("/etc/shadow\0"); // its name, not what is in it
});

test("attack 75: a vmdk that hides what it is, is bytes that the guest sees", async () => {
  const hidden = Buffer.from(`#\n${DESCRIPTOR}`.padEnd(4096, "\n"));
  await addDiskImage(machine, { name: "hidden", path: "disk/disk.img" }, hidden);
  await machine.create(imagePod("a", "hidden", LOOK));
  expect(await readOut(machine, "a", "formats")).toBe("qcow2\nraw\n");
  expect(await readOut(machine, "a", "sectors")).toContain(`#\n${DESCRIPTOR}`);
});

test("attack 77: a sparse bomb takes no room when it is copied", async () => {
  const bomb = Buffer.alloc(3 * COPY_MIB * 2 ** 20);
  await addDiskImage(machine, { name: "bomb", path: "disk/disk.img" }, bomb);
  const script = "stat -c '%s %b' /run/volumes/root/disk/disk.img >/out/size";
  await machine.create(imagePod("a", "bomb", script));
  expect(await readOut(machine, "a", "size")).toBe(`${String(bomb.length)} 0\n`);
});

test("attack 77: a bomb of data ends at its volume's size, and this is told", async () => {
  const bomb = Buffer.alloc(2 * COPY_MIB * 2 ** 20, "boom");
  await addDiskImage(machine, { name: "bomb", path: "disk/disk.img" }, bomb);
  let said = "";
  // The node may look just when the volume is full, and be quicker than the copy: then it is the copy's turn again.
  for (const name of ["a", "b", "c"]) {
    await machine.create(imagePod(name, "bomb", "true"));
    said = await whyFailed(machine, name);
    if (!said.startsWith('Usage of EmptyDir volume "root" ')) break;
  }
  expect(said).toContain("copy-files: /disk/disk.img: No space left on device");
});

test.each(["/run/launcher/libvirt/libvirt-sock", "/proc/1/environ", "/etc/shadow", "../secret"])(
  "attack 78: a disk that is a link to %s is refused",
  async (target) => {
    await addDiskImage(machine, { name: "link", path: "disk/disk.img" }, (path) => {
      symlinkSync(target, path);
    });
    await machine.create(imagePod("a", "link", "true"));
    const said = await whyFailed(machine, "a");
    expect(said).toContain("copy-files: /disk/disk.img: is a symbolic link, or behind one");
  },
);

test.each([
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
])("attack 79: a claim's file made by `$fill` is refused", async ({ fill, reason }) => {
  await machine.create(claimPod("a", fill));
  const said = await whyFailed(machine, "a");
  expect(said).toContain("prepare-disks: disk data: /run/volumes/root/disk.img");
  expect(said).toContain(reason);
});
