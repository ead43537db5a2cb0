// SPDX-License-Identifier: Apache-2.0
// A small layer that unpacks beyond the disk, on a small disk of its own. Needs root.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, statfsSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startRegistry, type Registry } from "../../contract/containerd/registry.ts";
import { RuntimeMachine, shellContainer, shellPod } from "../../contract/node-runtime/machine.ts";
import { IMAGES_MS } from "../containers/pod-machine.ts";

const GIBIBYTE = 2 ** 30;
const DISK_BYTES = 3 * GIBIBYTE;
const MEMBER_BYTES = 64 * 2 ** 20;
const TEST_TIMEOUT_MS = 120_000;

let work: string;
let disk: string;
let registry: Registry;
let machine: RuntimeMachine;
const usual = process.env["TMPDIR"];

function putBlob(bytes: Buffer): { readonly digest: string; readonly size: number } {
  const hash = createHash("sha256").update(bytes).digest("hex");
  writeFileSync(join(work, "blobs/sha256", hash), bytes);
  return { digest: `sha256:${hash}`, size: bytes.length };
}

/** A tar of one 5 GiB file of zeros: its header, and a compressed piece repeated 80 times. */
function zeros(): Buffer {
  const file = join(work, "zeros");
  writeFileSync(file, "");
  truncateSync(file, 5 * GIBIBYTE);
  const header = execFileSync("sh", ["-c", `tar -C ${work} -cf - zeros 2>/dev/null | head -c 512`]);
  const piece = gzipSync(Buffer.alloc(MEMBER_BYTES));
  const pieces = Array.from({ length: (5 * GIBIBYTE) / MEMBER_BYTES }, () => piece);
  return Buffer.concat([gzipSync(header), ...pieces, gzipSync(Buffer.alloc(1024))]);
}

function writeLayout(): void {
  mkdirSync(join(work, "blobs/sha256"), { recursive: true });
  const oci = "application/vnd.oci.image";
  const layer = putBlob(zeros());
  const rootfs = { type: "layers", diff_ids: [layer.digest] }; // never compared, because unpacking fails first
  const config = putBlob(
    Buffer.from(JSON.stringify({ os: "linux", architecture: "amd64", rootfs, config: {} })),
  );
  const manifest = {
    schemaVersion: 2,
    mediaType: `${oci}.manifest.v1+json`,
    config: { mediaType: `${oci}.config.v1+json`, ...config },
    layers: [{ mediaType: `${oci}.layer.v1.tar+gzip`, ...layer }],
  };
  const index = { manifests: [putBlob(Buffer.from(JSON.stringify(manifest)))] };
  writeFileSync(join(work, "index.json"), JSON.stringify(index));
}

function freeBytes(): number {
  const { bsize, bavail } = statfsSync(disk);
  return bsize * bavail;
}

beforeAll(async () => {
  work = mkdtempSync(join(tmpdir(), "patchbay-zeros-"));
  writeLayout();
  registry = await startRegistry(work);
  disk = join(work, "d");
  mkdirSync(disk);
  writeFileSync(join(work, "disk.img"), "");
  truncateSync(join(work, "disk.img"), DISK_BYTES);
  execFileSync("mkfs.ext4", ["-q", "-m", "0", join(work, "disk.img")]);
  execFileSync("mount", ["-o", "loop", join(work, "disk.img"), disk]);
  process.env["TMPDIR"] = disk; // the disk of containerd and the pods
  machine = await RuntimeMachine.start();
  await machine.installKinds();
}, IMAGES_MS);
afterAll(async () => {
  await machine.clear();
  await machine.close();
  if (usual === undefined) delete process.env["TMPDIR"];
  else process.env["TMPDIR"] = usual;
  await registry.close();
  execFileSync("umount", [disk]);
  rmSync(work, { recursive: true });
}, TEST_TIMEOUT_MS);

test(
  "attack 87: stops and removes a layer that unpacks beyond the image limit, without harm to other pods",
  async () => {
    const script = "dd if=/dev/zero of=/out/own bs=1M count=100 && sleep 600";
    const neighbor = {
      containers: [
        { ...shellContainer(script), volumeMounts: [{ name: "out", mountPath: "/out" }] },
      ],
      volumes: [{ name: "out", emptyDir: {} }],
    };
    await machine.create(shellPod("neighbour", "", neighbor));
    await machine.inPhase("neighbour", "Running");
    const before = freeBytes();
    const container = { ...shellContainer("true"), image: `${registry.host}/zeros:1` };
    await machine.create(shellPod("attacker", "", { containers: [container] }));
    let least = before;
    const message = await eventually(
      async () => {
        least = Math.min(least, freeBytes());
        const { status } = (await machine.pod("attacker")) ?? {};
        const { waiting } = status?.containerStatuses?.[0]?.state ?? {};
        return /^(ErrImagePull|ImagePullBackOff)$/.test(waiting?.reason ?? "")
          ? waiting?.message
          : undefined;
      },
      { withinMs: 60_000 },
    );
    expect(message).toMatch(
      /the pull was stopped: it unpacks to more than \d+(\.\d)?Mi, a quarter/,
    );
    expect(least).toBeGreaterThan(0.1 * DISK_BYTES);
    const slack = 150 * 2 ** 20; // the neighbor's remaining writes
    await eventually(() => freeBytes() > before - slack, { withinMs: 20_000 });
    expect((await machine.pod("neighbour"))?.status?.phase).toBe("Running");
  },
  TEST_TIMEOUT_MS,
);
