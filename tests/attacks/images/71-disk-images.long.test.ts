// SPDX-License-Identifier: Apache-2.0
// All disk images and claims that refer to node files or exceed the disk.
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { RuntimeMachine } from "../../contract/node-runtime/machine.ts";
import { IMAGES_MS, readOut } from "../containers/pod-machine.ts";
import {
  DESCRIPTOR,
  imageOf,
  LINK_TARGETS,
  makeDiskImages,
  REFUSED_CLAIMS,
  REFUSED_IMAGES,
  testRefusedDisks,
  type DiskBench,
} from "./disk-images-table.ts";
import { addDiskImage, COPY_MIB, imagePod, whyFailed } from "./disk-pods.ts";

let bench: DiskBench;

beforeAll(async () => {
  const machine = await RuntimeMachine.start();
  bench = { machine, images: await makeDiskImages(machine) };
}, IMAGES_MS);
afterEach(async () => {
  await bench.machine.clear();
});
afterAll(async () => {
  await bench.machine.close();
});

testRefusedDisks(() => bench, {
  images: REFUSED_IMAGES.slice(3),
  links: LINK_TARGETS.slice(1),
  claims: REFUSED_CLAIMS.slice(1),
});

/** The first sectors that a guest sees, and the format that QEMU uses for each file of the chain. */
const LOOK = `qemu-img info --backing-chain /run/disks/root.qcow2 | while read -r a b c d; do
    [ "$a $b" != "file format:" ] || echo "$c"; done >/out/formats
  qemu-img dd -f qcow2 -O raw bs=1024 count=1 if=/run/disks/root.qcow2 of=/out/sectors`;

test("attack 73: a qcow2 file inside a qcow2 file named raw is raw data to the guest", async () => {
  await addDiskImage(
    bench.machine,
    { name: "nested", path: "disk/disk.raw" },
    imageOf(bench.images, "outer"),
  );
  await bench.machine.create(imagePod("a", "nested", LOOK));
  expect(await readOut(bench.machine, "a", "formats")).toBe("qcow2\nqcow2\n");
  const sectors = await readOut(bench.machine, "a", "sectors");
  expect(sectors).toMatch(/^QFI/);
  expect(sectors).toContain("/etc/shadow\0"); // its name, not its content
});

test("attack 75: a vmdk that hides its format is raw data to the guest", async () => {
  const hidden = Buffer.from(`#\n${DESCRIPTOR}`.padEnd(4096, "\n"));
  await addDiskImage(bench.machine, { name: "hidden", path: "disk/disk.img" }, hidden);
  await bench.machine.create(imagePod("a", "hidden", LOOK));
  expect(await readOut(bench.machine, "a", "formats")).toBe("qcow2\nraw\n");
  expect(await readOut(bench.machine, "a", "sectors")).toContain(`#\n${DESCRIPTOR}`);
});

test("attack 77: copying a sparse bomb uses no disk space", async () => {
  const bomb = Buffer.alloc(3 * COPY_MIB * 2 ** 20);
  await addDiskImage(bench.machine, { name: "bomb", path: "disk/disk.img" }, bomb);
  const script = "stat -c '%s %b' /run/volumes/root/disk/disk.img >/out/size";
  await bench.machine.create(imagePod("a", "bomb", script));
  expect(await readOut(bench.machine, "a", "size")).toBe(`${String(bomb.length)} 0\n`);
});

test("attack 77: a data bomb stops at its volume's size, and the failure is reported", async () => {
  const bomb = Buffer.alloc(2 * COPY_MIB * 2 ** 20, "boom");
  await addDiskImage(bench.machine, { name: "bomb", path: "disk/disk.img" }, bomb);
  let message = "";
  // The node may measure just when the volume is full, before the copy fails; then the copy is retried.
  for (const name of ["a", "b", "c"]) {
    await bench.machine.create(imagePod(name, "bomb", "true"));
    message = await whyFailed(bench.machine, name);
    if (!message.startsWith('Usage of EmptyDir volume "root" ')) break;
  }
  expect(message).toContain("copy-files: /disk/disk.img: No space left on device");
});
