// SPDX-License-Identifier: Apache-2.0
// A real containerd for the ContainerRuntime suites: a busybox image, its own bridge, and commands of both.
import { spawnSync } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createContainerRuntime } from "@patchbay/cri";
import { createClock } from "@patchbay/os";
import type { ContainerRuntimeBench } from "@patchbay/cri/testing";
import {
  startContainerdBench,
  type BenchOptions,
  type ContainerdBench,
} from "../containerd/bench.ts";

/** Name of the suites' image. */
export const SUITE_IMAGE = "localhost/suite/busybox:1";

function run(command: string, ...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${stderr}`);
  return stdout;
}

/** Writes a blob of an OCI layout; returns its descriptor. */
function addBlob(layout: string, mediaType: string, bytes: Buffer): Record<string, unknown> {
  const hash = createHash("sha256").update(bytes).digest("hex");
  writeFileSync(join(layout, "blobs/sha256", hash), bytes);
  return { mediaType, digest: `sha256:${hash}`, size: bytes.length };
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** Settings of an image beside busybox. */
export interface BusyboxImage {
  /** Default {@link SUITE_IMAGE}. */
  readonly name?: string;
  /** The image's user; default: an unprivileged one. */
  readonly user?: string;
  /** Files below `/etc`, by name. */
  readonly etc?: Readonly<Record<string, string>>;
}

/** An OCI archive with busybox as its root file system. */
export function makeBusyboxImage(archive: string, image: BusyboxImage = {}): void {
  const { name = SUITE_IMAGE, user, etc = {} } = image;
  const work = mkdtempSync(join(tmpdir(), "busybox-image-"));
  try {
    const root = join(work, "root");
    for (const directory of ["bin", "tmp", "dev", "proc", "sys", "etc"]) {
      mkdirSync(join(root, directory), { recursive: true });
    }
    chmodSync(join(root, "tmp"), 0o1777);
    copyFileSync("/bin/busybox", join(root, "bin/busybox"));
    run("busybox", "ln", "-s", "busybox", join(root, "bin/sh"));
    for (const [file, text] of Object.entries(etc)) writeFileSync(join(root, "etc", file), text);
    const tar = join(work, "layer.tar");
    run("tar", "-C", root, "--owner=0", "--group=0", "--numeric-owner", "-cf", tar, ".");
    const layout = join(work, "layout");
    mkdirSync(join(layout, "blobs/sha256"), { recursive: true });
    const layer = run("sha256sum", tar).slice(0, 64);
    const size = Number(run("stat", "-c", "%s", tar));
    copyFileSync(tar, join(layout, "blobs/sha256", layer));
    const oci = (kind: string): string => `application/vnd.oci.image.${kind}`;
    const config = addBlob(
      layout,
      oci("config.v1+json"),
      json({
        architecture: process.arch === "arm64" ? "arm64" : "amd64",
        os: "linux",
        config: { Entrypoint: ["/bin/sh", "-c", PAUSE], ...(user !== undefined && { User: user }) },
        rootfs: { type: "layers", diff_ids: [`sha256:${layer}`] },
      }),
    );
    const manifest = addBlob(
      layout,
      oci("manifest.v1+json"),
      json({
        schemaVersion: 2,
        mediaType: oci("manifest.v1+json"),
        config,
        layers: [{ mediaType: oci("layer.v1.tar"), digest: `sha256:${layer}`, size }],
      }),
    );
    const annotations = { "io.containerd.image.name": name };
    writeFileSync(join(layout, "oci-layout"), json({ imageLayoutVersion: "1.0.0" }));
    writeFileSync(
      join(layout, "index.json"),
      json({ schemaVersion: 2, manifests: [{ ...manifest, annotations }] }),
    );
    run("tar", "-C", layout, "-cf", archive, "oci-layout", "index.json", "blobs");
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** A program that exits with 143 on SIGTERM. */
const PAUSE = "trap 'exit 143' TERM; while :; do busybox sleep 1 & wait $!; done";

/**
 * Whether the shell has installed its SIGTERM handler. Before that runc runs, which exits with 2 on SIGTERM. The
 * handler is the 15th bit of the caught or ignored signals.
 */
const LISTENING = [
  "busybox grep -q '^Name:.sh$' /proc/1/status",
  "busybox grep -qE '^Sig(Cgt|Ign):.*[4-7c-f][0-9a-f]{3}$' /proc/1/status",
].join(" && ");

function sh(script: string): readonly string[] {
  return ["/bin/sh", "-c", script];
}

/** A bridge with a unique name and an unused address range. */
function networkOf(bridge: string, directory: string): string {
  return JSON.stringify({
    cniVersion: "1.0.0",
    name: bridge,
    plugins: [
      {
        type: "bridge",
        bridge,
        isGateway: true,
        ipam: {
          type: "host-local",
          ranges: [[{ subnet: "10.213.77.0/24" }]],
          dataDir: join(directory, "addresses"),
        },
      },
    ],
  });
}

/** The runtime and its containerd. */
export interface ContainerdRuntimeBench extends ContainerRuntimeBench {
  readonly containerd: ContainerdBench;
}

/** Starts a containerd with the suites' image; by default pods are on a bridge of their own. */
export async function startContainerdRuntime(
  cni: Pick<BenchOptions, "network" | "cniPlugins"> = {},
): Promise<ContainerdRuntimeBench> {
  const work = mkdtempSync(join(tmpdir(), "cri-suite-"));
  const bridge = `suite-${randomUUID().slice(0, 8)}`;
  const containerd = await startContainerdBench({
    sandboxImage: SUITE_IMAGE,
    network: networkOf(bridge, work),
    ...cni,
  });
  const clock = createClock();
  const runtime = createContainerRuntime({ endpoints: [containerd.endpoint], clock });
  const pass = (ms: number): Promise<void> => clock.sleep(ms, new AbortController().signal);
  const close = async (): Promise<void> => {
    runtime.close();
    await containerd.close();
    spawnSync("ip", ["link", "delete", bridge]);
    rmSync(work, { recursive: true, force: true });
  };
  try {
    const archive = join(work, "busybox.tar");
    makeBusyboxImage(archive);
    await containerd.ctr("images", "import", archive);
    const logDirectory = join(work, "logs");
    mkdirSync(logDirectory);
    return {
      containerd,
      runtime,
      image: SUITE_IMAGE,
      runner: sh(PAUSE),
      stubborn: sh("trap '' TERM; while :; do busybox sleep 1; done"),
      failing: sh("exit 3"),
      done: sh("exit 0"),
      speaker: sh("echo out; echo err >&2; exit 3"),
      listening: sh(LISTENING),
      chatterer: sh("busybox head -c 15728640 /dev/zero"),
      sleeper: sh("busybox sleep 60"),
      logDirectory,
      cgroupParent: containerd.cgroupParent,
      pass,
      stop: () => containerd.end("SIGKILL"),
      start: () => containerd.start(),
      killSandbox: (id) => {
        killShim(id);
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Kills the shim of one sandbox: its command line ends with `-id ID -address SOCKET`. */
function killShim(id: string): void {
  run("busybox", "kill", "-9", run("pgrep", "-f", `containerd-shim.*-id ${id}`).trim());
}
