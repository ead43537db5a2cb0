// SPDX-License-Identifier: Apache-2.0
// Claims that together exceed the disk, on a disk of that size. Needs root.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmdirSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, names } from "@patchbay/api";
import type {
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  StorageClass,
} from "@patchbay/api/kubernetes";
import { KeyedMutex } from "@patchbay/base";
import { type Note } from "@patchbay/kube";
import { createClaimDisk, createFiles, createProcessRunner, createVolumeDisk } from "@patchbay/os";
import { createFakeCache, createFakeStore } from "@patchbay/kube/testing";
import { createFakeClock } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ClaimDeps } from "../../../packages/standalone/node-runtime/src/claims/deps.ts";
import { reconcileClaim } from "../../../packages/standalone/node-runtime/src/claims/reconcile-claims.ts";
import {
  aClaim,
  aClass,
  HANDLE,
} from "../../../packages/standalone/node-runtime/src/claims/testing.ts";
import { createClaimGrowth } from "../../../packages/standalone/node-runtime/src/claims/claim-growth.ts";
import { checkStorage } from "../../../packages/standalone/node-runtime/src/volumes/storage/enforce-limits.ts";

const MEBIBYTE = 2 ** 20;
const NUMBERS = [1, 2, 3];
/** Three passes provision a claim; the fourth finds nothing to do. */
const PASSES = 4;
let disk: string;

beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), "patchbay-claims-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=6400m,mode=700", "none", disk]);
});
afterAll(() => {
  execFileSync("umount", [disk]);
  rmdirSync(disk);
});

function large(number: number, mode: "Block" | "Filesystem"): PersistentVolumeClaim {
  const claim = aClaim({ resources: { requests: { storage: "5Gi" } }, volumeMode: mode });
  const uid = `${String(number)}0000000-2222-3333-4444-555555555555`;
  return { ...claim, metadata: { ...claim.metadata, uid, name: `data-${String(number)}` } };
}

/** Node parts that these tests do not use. */
const FACTS = { name: "node-1", hostIp: "192.0.2.1", cgroupParent: "/none", memoryBytes: 2 ** 30 };

function aPod(uid: string): Pod {
  const volumes = [{ name: "v", emptyDir: {} }];
  const containers = [{ name: "main", image: "i" }];
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: uid, namespace: "ns", uid },
    spec: { containers, ...(uid === "writer" ? {} : { volumes }) },
  };
}

/** Runs the loop's passes on real files, with watch events in between. */
class Node {
  readonly store = createFakeStore();
  readonly claims = createFakeCache<PersistentVolumeClaim>();
  readonly volumes = createFakeCache<PersistentVolume>();
  readonly classes = createFakeCache<StorageClass>();
  readonly notes: Note[] = [];
  readonly deps: ClaimDeps = {
    store: this.store,
    claims: this.claims,
    volumes: this.volumes,
    classes: this.classes,
    claimsDir: disk,
    disk: createClaimDisk({ runner: createProcessRunner() }),
    files: createFiles(),
    clock: createFakeClock(),
    log: createFakeLogger(),
    nodeName: "node-1",
    mutex: new KeyedMutex(),
    recorder: { record: (_, note) => void this.notes.push(note), flush: () => Promise.resolve() },
  };

  constructor() {
    this.classes.put(aClass());
  }

  async pass(): Promise<void> {
    for (const claim of (await this.store.list(PERSISTENT_VOLUME_CLAIMS)).items) {
      this.claims.put(claim);
    }
    await Promise.all(
      this.claims.list().map(({ metadata }) => reconcileClaim(this.deps, `ns/${metadata.name}`)),
    );
    for (const volume of (await this.store.list(PERSISTENT_VOLUMES)).items) {
      this.volumes.put(volume);
    }
  }
}

test("attack 86: provisions one of three 5 GiB claims on a disk of 6.25 GiB and reports why the others wait", async () => {
  const node = new Node();
  const modes = ["Filesystem", "Block", "Filesystem"] as const;
  for (const number of NUMBERS) {
    node.store.put(PERSISTENT_VOLUME_CLAIMS, large(number, modes[number - 1] ?? "Block"));
  }
  for (let pass = 0; pass < PASSES; pass += 1) await node.pass();
  const claims = (await node.store.list(PERSISTENT_VOLUME_CLAIMS)).items;
  const phases = claims.map(({ status }) => status?.phase ?? "");
  expect(phases.toSorted()).toEqual(["Bound", "Pending", "Pending"]);
  expect(readdirSync(disk)).toHaveLength(1);
  const { bsize, bfree } = statfsSync(disk);
  expect(bsize * bfree).toBeGreaterThan(5 * 2 ** 30); // sparse: what counts is the promise
  const [note] = node.notes;
  expect(note?.reason).toBe("ProvisioningFailed");
  expect(note?.message).toMatch(
    /node\(s\) did not have enough free storage: .* 5(\.3)?Gi of that are promised to other claims: delete unused claims/,
  );
});

test("attack 86: on a disk full of older claims, evicts the writing pod, not its neighbor", async () => {
  const small = join(disk, "small");
  mkdirSync(small);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=256m", "none", small]);
  try {
    const [podsDir, claimsDir] = [join(small, "pods"), join(small, "claims")];
    const claim = join(claimsDir, HANDLE);
    mkdirSync(join(claim, "users"), { recursive: true });
    writeFileSync(join(claim, "users/writer"), "");
    const own = join(podsDir, "neighbour", names.EMPTY_DIR_VOLUMES, "v");
    mkdirSync(own, { recursive: true });
    writeFileSync(join(own, "file"), Buffer.alloc(80 * MEBIBYTE));
    const pods = createFakeCache<Pod>();
    for (const uid of ["writer", "neighbour"]) pods.put(aPod(uid));
    const evicted: string[] = [];
    const [clock, files] = [createFakeClock(), createFiles()];
    const volumes = createVolumeDisk({ runner: createProcessRunner() });
    const storage = {
      clock,
      files,
      pods,
      log: createFakeLogger(),
      disk: volumes,
      node: { ...FACTS, podsDir, logDir: join(small, "logs") },
      runtime: { listWrites: () => Promise.resolve([]) },
      growths: createClaimGrowth({
        clock,
        files,
        claimsDir,
        usedBytes: (paths) => volumes.usedBytes(paths),
      }),
      evict: (uid: string, message: string) => void evicted.push(`${uid}: ${message}`),
    };
    writeFileSync(join(claim, "volume.img"), Buffer.alloc(MEBIBYTE));
    const first = await checkStorage(storage, undefined);
    writeFileSync(join(claim, "volume.img"), Buffer.alloc(172 * MEBIBYTE));
    await clock.advance(10_000);
    await checkStorage(storage, first);
    expect(evicted).toHaveLength(1);
    expect(evicted[0]).toMatch(/^writer: .*low on resource.* new data of claim volume "pvc-/);
  } finally {
    execFileSync("umount", [small]);
    rmdirSync(small);
  }
});
