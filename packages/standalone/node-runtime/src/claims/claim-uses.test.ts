// SPDX-License-Identifier: Apache-2.0
import { PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES } from "@patchbay/api";
import type { PersistentVolume, PersistentVolumeClaim, Pod } from "@patchbay/api/kubernetes";
import { createFakeStore } from "@patchbay/kube/testing";
import { createFakeClaimDisk, createFakeFiles } from "@patchbay/os/testing";
import { describe, expect, test } from "vitest";
import { aContainer, aPod } from "../testing/pods.ts";
import { aClaim, aVolume, HANDLE } from "./testing.ts";
import { createClaimUses } from "./claim-uses.ts";

const FILE = `/claims/${HANDLE}/volume.img`;
const MOUNT = `/claims/${HANDLE}/mount`;
const VOLUME = { name: "v", claimName: "data" };
const BOUND = aClaim({ volumeName: HANDLE }, { status: { phase: "Bound" } });

/** A node with that claim, whose storage is made. */
async function node(claim: PersistentVolumeClaim = BOUND, volume: PersistentVolume = aVolume()) {
  const [disk, files, store] = [createFakeClaimDisk(), createFakeFiles(), createFakeStore()];
  store.put(PERSISTENT_VOLUME_CLAIMS, claim);
  store.put(PERSISTENT_VOLUMES, volume);
  await disk.make(FILE, { kind: "files", sizeBytes: 1 });
  const uses = createClaimUses({ disk, files, store, claimsDir: "/claims" });
  return { disk, files, uses };
}

function pod(uid: string, spec: Partial<Pod["spec"]> = {}): Pod {
  return aPod(spec, { uid });
}

function reason(text: string): object {
  return { code: "RUNTIME_VOLUME_FAILED", details: { reason: text } };
}

describe("a claim of mode Filesystem", () => {
  test("is mounted for the pod's group, once for all pods, and unmounted with the last", async () => {
    const { disk, uses } = await node();
    expect(await uses.begin(pod("one"), VOLUME)).toBe(MOUNT);
    expect(disk.mounts.get(MOUNT)).toEqual({ file: FILE, group: 107 });
    expect(await uses.begin(pod("one"), VOLUME)).toBe(MOUNT);
    expect(await uses.begin(pod("two"), VOLUME)).toBe(MOUNT);
    await uses.end("one");
    expect(disk.mounts.has(MOUNT)).toBe(true);
    await uses.end("two");
    await uses.end("two");
    expect(disk.mounts.size).toBe(0);
  });

  test("is unmounted by a process that did not mount the claim", async () => {
    const { disk, files, uses } = await node();
    await uses.begin(pod("one"), VOLUME);
    const store = createFakeStore();
    await createClaimUses({ disk, files, store, claimsDir: "/claims" }).end("one");
    expect(disk.mounts.size).toBe(0);
    expect(await files.list(`/claims/${HANDLE}/users`)).toEqual([]);
  });

  test("is mounted without a group while another pod uses the claim", async () => {
    const { disk, uses } = await node();
    await uses.begin(pod("one"), VOLUME);
    await disk.release(FILE, MOUNT);
    await uses.begin(pod("two"), VOLUME);
    expect(disk.mounts.get(MOUNT)).toEqual({ file: FILE });
  });

  test("is mounted without changes for a pod without a group", async () => {
    const { disk, uses } = await node();
    await uses.begin(pod("one", { securityContext: {} }), VOLUME);
    expect(disk.mounts.get(MOUNT)).toEqual({ file: FILE });
  });

  test("is rejected as a device", async () => {
    const { uses } = await node();
    const volumeDevices = [{ name: "v", devicePath: "/dev/v" }];
    const wrong = pod("one", { initContainers: [aContainer({ name: "first", volumeDevices })] });
    await expect(uses.begin(wrong, VOLUME)).rejects.toMatchObject(
      reason("claim data has volumeMode Filesystem, but is in volumeDevices"),
    );
  });

  test("is not recreated if its file is lost", async () => {
    const { disk, uses } = await node();
    disk.lose(FILE);
    await expect(uses.begin(pod("one"), VOLUME)).rejects.toMatchObject({ code: "OS_FILE_FAILED" });
  });
});

describe("a claim of mode Block", () => {
  const block = aVolume("Bound", { volumeMode: "Block" });

  test("is attached as one device for all pods", async () => {
    const { disk, uses } = await node(BOUND, block);
    const device = await uses.begin(pod("one"), VOLUME);
    expect(await uses.begin(pod("two"), VOLUME)).toBe(device);
    expect([...disk.devices]).toEqual([[FILE, device]]);
    await uses.end("one");
    await uses.end("two");
    expect(disk.devices.size).toBe(0);
  });

  test("is rejected as a mount", async () => {
    const { uses } = await node(BOUND, block);
    const volumeMounts = [{ name: "v", mountPath: "/v" }];
    const wrong = pod("one", { containers: [aContainer({ volumeMounts })] });
    await expect(uses.begin(wrong, VOLUME)).rejects.toMatchObject(
      reason("claim data has volumeMode Block, but is in volumeMounts"),
    );
  });
});

describe("a pod does not get", () => {
  test.each<{
    name: string;
    claim?: PersistentVolumeClaim;
    volume?: PersistentVolume;
    want: string;
  }>([
    {
      name: "an unbound claim",
      claim: aClaim({ volumeName: HANDLE }),
      want: "claim data is not bound",
    },
    {
      name: "a volume that is bound to another claim",
      volume: aVolume("Bound", { claimRef: { namespace: "ns", name: "data", uid: "other" } }),
      want: `claim data does not have volume ${HANDLE}`,
    },
    {
      name: "a volume of another driver",
      volume: aVolume("Bound", { csi: { driver: "nfs", volumeHandle: HANDLE } }),
      want: `volume ${HANDLE} is not a volume of this machine`,
    },
    {
      name: "a volume whose path leaves the directory of claims",
      volume: aVolume("Bound", { csi: { driver: "patchbay.io/local", volumeHandle: "../pki" } }),
      want: `volume ${HANDLE} is not a volume of this machine`,
    },
  ])("$name", async ({ claim, volume, want }) => {
    const { disk, uses } = await node(claim, volume);
    await expect(uses.begin(pod("one"), VOLUME)).rejects.toMatchObject(reason(want));
    expect(disk.mounts.size).toBe(0);
  });

  test("a claim that does not exist", async () => {
    const { uses } = await node();
    await expect(uses.begin(pod("one"), { name: "v", claimName: "x" })).rejects.toMatchObject(
      reason("claim x does not exist"),
    );
  });

  test("a ReadWriteOncePod claim while another pod uses it", async () => {
    const alone = aClaim(
      { volumeName: HANDLE, accessModes: ["ReadWriteOncePod"] },
      { status: { phase: "Bound" } },
    );
    const { uses } = await node(alone);
    await uses.begin(pod("one"), VOLUME);
    await uses.begin(pod("one"), VOLUME);
    await expect(uses.begin(pod("two"), VOLUME)).rejects.toMatchObject(
      reason("claim data is ReadWriteOncePod, and another pod uses it"),
    );
    await uses.end("one");
    expect(await uses.begin(pod("two"), VOLUME)).toBe(MOUNT);
  });
});
