// SPDX-License-Identifier: Apache-2.0
// Disks imported as images of a stopped machine, and rejected ones. Needs root, containerd and qemu-img.
import { execFileSync } from "node:child_process";
import {
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rm,
  stat,
  truncate,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createImageMounts } from "@patchbay/containerd";
import { addImage, listImages } from "@patchbay/supervisor";
import { afterAll, beforeAll, expect, test } from "vitest";
import { withContainerd } from "../../../packages/standalone/supervisor/src/images/with-containerd.ts";

const MIB = 2 ** 20;
let work: string;
let dataDir: string;

async function add(source: string) {
  const lines: string[] = [];
  const print = (line: string): void => {
    lines.push(line);
  };
  const added = await addImage({ dataDir, name: "disk", source: join(work, source), print });
  return { added, lines };
}

function qemuImg(...args: readonly string[]): void {
  execFileSync("qemu-img", args, { cwd: work });
}

/** The image's files: path, owner, mode and content of each. */
async function filesOfImage() {
  const root = join(work, "root");
  await mkdir(root, { recursive: true });
  return withContainerd(dataDir, async (access) => {
    const views = createImageMounts(access);
    await views.mount("disk", root);
    try {
      const names = await readdir(root, { recursive: true, withFileTypes: true });
      const files = names.filter((each) => each.isFile());
      return await Promise.all(
        files.map(async ({ parentPath, name }) => {
          const path = join(parentPath, name);
          const { uid, gid, mode } = await stat(path);
          const content = await readFile(path);
          return { path: path.slice(root.length), uid, gid, mode: mode & 0o777, content };
        }),
      );
    } finally {
      await views.unmount(root);
    }
  });
}

beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), "disks-"));
  dataDir = join(work, "data");
  qemuImg("create", "-q", "-f", "qcow2", "good.qcow2", "10G");
  await writeFile(join(work, "good.img"), Buffer.alloc(MIB, "data"), { mode: 0o600 });
});
afterAll(async () => {
  await rm(work, { recursive: true });
});

test.each([
  { source: "good.qcow2", path: "/disk/disk.qcow2", virtual: "10240 MiB" },
  { source: "good.img", path: "/disk/disk.img", virtual: "1 MiB" },
])(
  "$source is in its image as $path and belongs to the launchers' user",
  async ({ source, path, virtual }) => {
    const { added, lines } = await add(source);
    expect(added).toMatchObject({
      name: "disk",
      digest: expect.stringMatching(/^sha256:/) as string,
    });
    expect(lines.join("\n")).toContain(`the guest sees ${virtual}`);
    const content = await readFile(join(work, source));
    expect(await filesOfImage()).toEqual([{ path, uid: 107, gid: 107, mode: 0o444, content }]);
    expect((await add(source)).added.digest).toBe(added.digest);
  },
);

/** A header with a disk size of 10 EiB. Source: QEMU docs/interop/qcow2.txt, header, bytes 24 to 31. */
async function makeHuge(name: string): Promise<void> {
  qemuImg("create", "-q", "-f", "qcow2", name, "1M");
  const file = await open(join(work, name), "r+");
  const size = Buffer.alloc(8);
  size.writeBigUInt64BE(10n * 2n ** 60n);
  await file.write(size, 0, size.length, 24);
  await file.close();
}

interface Hostile {
  readonly name: string;
  readonly want: string;
  readonly make: (name: string) => unknown;
}

const HOSTILE: readonly Hostile[] = [
  {
    name: "backing-file.qcow2",
    want: 'an overlay of the file "/etc/shadow"',
    make: (name) => {
      qemuImg("create", "-q", "-f", "qcow2", "-F", "raw", "-b", "/etc/shadow", name, "1M");
    },
  },
  {
    name: "backing-nbd.qcow2",
    want: 'an overlay of the file "nbd://127.0.0.1:9/x"',
    make: (name) => {
      const backing = ["-u", "-F", "raw", "-b", "nbd://127.0.0.1:9/x"];
      qemuImg("create", "-q", "-f", "qcow2", ...backing, name, "1M");
    },
  },
  {
    name: "data-file.qcow2",
    want: "its data is in another file",
    make: (name) => {
      qemuImg(
        "create",
        "-q",
        "-f",
        "qcow2",
        "-o",
        `data_file=${join(work, "data.raw")}`,
        name,
        "1M",
      );
    },
  },
  {
    name: "qcow2.raw",
    want: "contains a disk of format qcow2",
    make: (name) => {
      qemuImg("create", "-q", "-f", "qcow2", name, "1M");
    },
  },
  {
    name: "disk.vmdk",
    want: "its format is vmdk",
    make: (name) => {
      qemuImg("create", "-q", "-f", "vmdk", name, "1M");
    },
  },
  { name: "huge.qcow2", want: "too big", make: makeHuge },
  {
    name: "page.img",
    want: "22 bytes are not a whole number of 512-byte sectors",
    make: (name) => writeFile(join(work, name), "<html>not found</html>"),
  },
  {
    name: "short.qcow2",
    want: "short.qcow2': qcow2 header too short",
    make: async (name) => {
      qemuImg("create", "-q", "-f", "qcow2", name, "1M");
      await truncate(join(work, name), 100);
    },
  },
];

test.each(HOSTILE)("rejects $name and leaves nothing", async ({ name, want, make }) => {
  await make(name);
  const before = await listImages(dataDir);
  const refusal = {
    code: "IMAGE_SOURCE_INVALID",
    message: expect.stringContaining(want) as string,
  };
  await expect(add(name)).rejects.toMatchObject(refusal);
  expect(await listImages(dataDir)).toEqual(before);
  const remaining = await readdir(join(dataDir, "containerd"));
  expect(remaining.filter((each) => each.startsWith("image-"))).toEqual([]);
});

test("rejects a disk without enough space before copying", async () => {
  execFileSync("truncate", ["--size=8T", join(work, "sparse.raw")]);
  await expect(add("sparse.raw")).rejects.toThrow(/it needs \d+ MiB on the file system/);
});
