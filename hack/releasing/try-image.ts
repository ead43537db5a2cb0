// SPDX-License-Identifier: Apache-2.0
// Runs a program of an image in its unpacked files, under emulation if it is for another processor.
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ImageName } from "./image-names.ts";
import { emptyDirectory, read, run, type Architecture } from "./release.ts";

const MACHINE: Architecture = process.arch === "arm64" ? "arm64" : "amd64";
/** Names of processors in QEMU's programs. */
const PROCESSORS: Readonly<Record<Architecture, string>> = { amd64: "x86_64", arm64: "aarch64" };
const PATCHBAY = "/usr/lib/patchbay";
const LIMIT_MS = 120_000;
/** A program that waits gets SIGTERM after this time. */
const WAIT_SECONDS = "5";

export function findEmulator(architecture: Architecture): string | undefined {
  return architecture === MACHINE ? undefined : `/usr/bin/qemu-${PROCESSORS[architecture]}-static`;
}

interface Trial {
  /** A program with absolute path. */
  readonly argv: readonly string[];
  /** Part of its output. */
  readonly want: string;
}

function listTrials(image: ImageName, processor: string, version: string): readonly Trial[] {
  const node = `${PATCHBAY}/node_modules/.bin/node`;
  const addon = `${PATCHBAY}/packages/adapters/libvirt/build/libvirt.node`;
  const program = `${PATCHBAY}/packages/control-plane/virt-handler/dist/bundle/main.js`;
  const trials: Readonly<Record<ImageName, readonly Trial[]>> = {
    pause: [{ argv: ["/pause"], want: "" }],
    "virt-launcher": [
      { argv: [`/usr/bin/qemu-system-${processor}`, "--version"], want: "QEMU emulator version" },
    ],
    patchbay: [
      { argv: [node, program, "--version"], want: `${version}\n` },
      { argv: [node, "-p", `typeof require("${addon}")`], want: "object\n" },
    ],
    "sidecar-shim": [
      { argv: ["/usr/bin/python3", "/usr/bin/sidecar-shim", "--help"], want: "usage" },
    ],
  };
  return trials[image];
}

/** Unpacks the layers of an archive with one manifest. */
function unpack(archive: string, root: string): void {
  const blob = (digest: string): string =>
    read(["tar", "-xOf", archive, `blobs/${digest.replace(":", "/")}`]);
  const index = JSON.parse(read(["tar", "-xOf", archive, "index.json"])) as {
    readonly manifests: readonly { readonly digest: string }[];
  };
  const manifest = JSON.parse(blob(index.manifests[0]?.digest ?? "")) as {
    readonly layers: readonly { readonly digest: string }[];
  };
  const blobs = emptyDirectory(`${root}.blobs`);
  run(["tar", "-C", blobs, "-xf", archive]);
  emptyDirectory(root);
  for (const { digest } of manifest.layers) {
    run(["tar", "-C", root, "-xf", join(blobs, "blobs", digest.replace(":", "/"))]);
  }
  rmSync(blobs, { recursive: true });
}

/** An image's archive for one architecture. */
interface TriedImage {
  readonly architecture: Architecture;
  readonly image: ImageName;
  readonly archive: string;
  readonly version: string;
}

/** @throws if a program of the image does not run or prints something else */
export function tryImage({ architecture, image, archive, version }: TriedImage): void {
  const directory = mkdtempSync(join(tmpdir(), "try-image-"));
  const root = join(directory, "root");
  try {
    unpack(archive, root);
    const emulator = findEmulator(architecture);
    if (emulator !== undefined) copyFileSync(emulator, join(root, "emulator"));
    const prefix = emulator === undefined ? [] : ["/emulator"];
    for (const { argv, want } of listTrials(image, PROCESSORS[architecture], version)) {
      const chroot = ["chroot", "--userspec=65534:65534", root, ...prefix, ...argv];
      const args = ["--preserve-status", `--kill-after=${WAIT_SECONDS}`];
      const limited = argv[0] === "/pause" ? [...args, WAIT_SECONDS] : [...args, "110"];
      const options = { encoding: "utf8", timeout: LIMIT_MS } as const;
      const { status, stdout, stderr } = spawnSync("timeout", [...limited, ...chroot], options);
      if (status === 0 && stdout.includes(want)) continue;
      const ended = `ended with ${String(status)} and printed ${JSON.stringify(stdout + stderr)}`;
      throw new Error(`${argv.join(" ")} of image ${image} for ${architecture} ${ended}`);
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
