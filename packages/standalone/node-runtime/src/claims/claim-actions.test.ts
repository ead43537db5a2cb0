// SPDX-License-Identifier: Apache-2.0
import { PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES } from "@patchbay/api";
import type { PersistentVolume, PersistentVolumeClaim } from "@patchbay/api/kubernetes";
import { KeyedMutex } from "@patchbay/base";
import type { Note } from "@patchbay/kube";
import { createFakeCache, createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { createFakeClaimDisk, createFakeClock, createFakeFiles } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { describe, expect, test } from "vitest";
import { actOnClaim, actOnVolume } from "./reconcile-claims.ts";
import type { ClaimDeps } from "./deps.ts";
import { aClaim, aVolume, CLAIM_UID, HANDLE, withoutClaim } from "./testing.ts";

const DIRECTORY = `/claims/${HANDLE}`;
const FILE = `${DIRECTORY}/volume.img`;
const VOLUME = { name: HANDLE };
const CLAIM = { namespace: "ns", name: "data" };

/** A machine and an API server, and what was recorded. */
function bench() {
  const store = createFakeStore();
  const [disk, files, log] = [createFakeClaimDisk(), createFakeFiles(), createFakeLogger()];
  const notes: Note[] = [];
  const modes = new Map<string, number | undefined>();
  const ensureDirectory = files.ensureDirectory.bind(files);
  files.ensureDirectory = (path, mode) => {
    modes.set(path, mode);
    return ensureDirectory(path);
  };
  const deps: ClaimDeps = {
    store,
    disk,
    files,
    log,
    claimsDir: "/claims",
    nodeName: "node-1",
    clock: createFakeClock(),
    mutex: new KeyedMutex(),
    claims: createFakeCache(),
    volumes: createFakeCache(),
    classes: createFakeCache(),
    recorder: {
      record: (_, note) => void notes.push(note),
      flush: () => Promise.resolve(),
    },
  };
  return { deps, store, disk, files, log, notes, modes };
}

async function stored(store: FakeStore): Promise<PersistentVolume | undefined> {
  return store.find(PERSISTENT_VOLUMES, VOLUME);
}

/** The claim as the API server has it, with its version. */
async function putClaim(store: FakeStore): Promise<PersistentVolumeClaim> {
  store.put(PERSISTENT_VOLUME_CLAIMS, aClaim());
  const found = await store.find(PERSISTENT_VOLUME_CLAIMS, CLAIM);
  if (found === undefined) throw new Error("the store has lost the claim");
  return found;
}

/** The volume as the API server has it, with its version. */
async function putVolume(store: FakeStore, volume: PersistentVolume): Promise<PersistentVolume> {
  store.put(PERSISTENT_VOLUMES, volume);
  const found = await stored(store);
  if (found === undefined) throw new Error("the store has lost the volume");
  return found;
}

describe("actions for a claim", () => {
  test("records an event without the fields of the plan", async () => {
    const { deps, notes } = bench();
    const note = { type: "Normal", reason: "Waiting", message: "for a pod" } as const;
    await actOnClaim(deps, aClaim(), { kind: "note", ...note });
    expect(notes).toEqual([note]);
  });

  test("creates a volume once, and a second attempt finds it", async () => {
    const { deps, store, log } = bench();
    await actOnClaim(deps, aClaim(), { kind: "createVolume", volume: aVolume("Pending") });
    await actOnClaim(deps, aClaim(), { kind: "createVolume", volume: aVolume("Released") });
    expect((await stored(store))?.status?.phase).toBe("Pending");
    expect(log.lines).toMatchObject([{ level: "info", fields: { object: HANDLE } }]);
  });

  test("rethrows any other failure to create a volume", async () => {
    const { deps, store } = bench();
    store.create = () => Promise.reject(new Error("no quorum"));
    const action = { kind: "createVolume", volume: aVolume() } as const;
    await expect(actOnClaim(deps, aClaim(), action)).rejects.toThrow("no quorum");
  });

  test("creates storage in a directory that only root can access", async () => {
    const { deps, disk, modes } = bench();
    const size = { kind: "device", sizeBytes: 7 } as const;
    await actOnClaim(deps, aClaim(), { kind: "createStorage", handle: HANDLE, size });
    expect([...modes]).toEqual([[DIRECTORY, 0o700]]);
    expect([...disk.files]).toEqual([[FILE, size]]);
  });

  test("claims a free volume only in its newest version", async () => {
    const { deps, store } = bench();
    const volume = await putVolume(store, withoutClaim(aVolume("Available")));
    await actOnClaim(deps, aClaim(), { kind: "setClaimRef", volume });
    expect((await stored(store))?.spec.claimRef).toEqual({
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      namespace: "ns",
      name: "data",
      uid: CLAIM_UID,
    });
    expect((await stored(store))?.spec.capacity).toEqual({ storage: "1Gi" });
  });

  test("binds the claim to its volume with Kubernetes' annotations", async () => {
    const { deps, store } = bench();
    const claim = await putClaim(store);
    await actOnClaim(deps, claim, { kind: "bindClaim", volumeName: HANDLE });
    const bound = await store.find(PERSISTENT_VOLUME_CLAIMS, CLAIM);
    expect(bound?.spec.volumeName).toBe(HANDLE);
    expect(bound?.metadata.annotations).toMatchObject({
      "pv.kubernetes.io/bind-completed": "yes",
      "pv.kubernetes.io/bound-by-controller": "yes",
      "volume.kubernetes.io/storage-provisioner": "patchbay.io/local",
    });
    expect(bound?.status).toEqual({ phase: "Pending" });
  });

  test.each(["bindClaim", "setClaimRef"] as const)(
    "%s sends the resource version that was read",
    async (kind) => {
      const { deps, store } = bench();
      const claim = await putClaim(store);
      const volume = await putVolume(store, aVolume());
      const versions: unknown[] = [];
      const patch: FakeStore["patch"] = (_type, _key, { type, ...change }) => {
        const fields: unknown = { type, ...change };
        versions.push(fields);
        return Promise.reject(new Error("conflict"));
      };
      store.patch = patch;
      const action = kind === "bindClaim" ? { kind, volumeName: HANDLE } : { kind, volume };
      await expect(actOnClaim(deps, claim, action)).rejects.toThrow("conflict");
      const { resourceVersion } = (kind === "bindClaim" ? claim : volume).metadata;
      expect(resourceVersion).toBeDefined();
      expect(versions).toMatchObject([
        { type: "merge", fields: { metadata: { resourceVersion } } },
      ]);
    },
  );

  test("writes the phases to the status of claim and volume", async () => {
    const { deps, store } = bench();
    const claim = await putClaim(store);
    await putVolume(store, aVolume("Pending"));
    const subresources: unknown[] = [];
    const patch = store.patch.bind(store);
    store.patch = (type, key, change, options) => {
      subresources.push(options?.subresource);
      return patch(type, key, change, options);
    };
    await actOnClaim(deps, claim, { kind: "reportClaim", status: { phase: "Lost" } });
    await actOnClaim(deps, claim, { kind: "reportVolume", name: HANDLE, phase: "Bound" });
    await actOnVolume(deps, { kind: "reportVolume", name: HANDLE, phase: "Released" });
    expect((await store.find(PERSISTENT_VOLUME_CLAIMS, CLAIM))?.status?.phase).toBe("Lost");
    expect((await stored(store))?.status?.phase).toBe("Released");
    expect(subresources).toEqual(["status", "status", "status"]);
  });
});

describe("the storage of a volume", () => {
  const released = aVolume("Released");
  const remove = { kind: "removeStorage", volume: released } as const;

  async function withStorage() {
    const machine = bench();
    await machine.disk.make(FILE, { kind: "files", sizeBytes: 1 });
    await machine.disk.mount(FILE, { directory: `${DIRECTORY}/mount` });
    await machine.files.writeAtomic(FILE, "");
    return machine;
  }

  test("is unmounted and removed with its claim", async () => {
    const { deps, store, disk, files, log } = await withStorage();
    store.put(PERSISTENT_VOLUMES, released);
    await actOnVolume(deps, remove);
    expect(await files.exists(DIRECTORY)).toBe(false);
    expect(disk.mounts.size).toBe(0);
    expect(log.lines).toMatchObject([{ level: "info", fields: { object: HANDLE } }]);
  });

  test("is removed although another claim now has the name", async () => {
    const { deps, store, files } = await withStorage();
    store.put(PERSISTENT_VOLUMES, released);
    const { metadata } = aClaim();
    store.put(PERSISTENT_VOLUME_CLAIMS, aClaim({}, { metadata: { ...metadata, uid: "another" } }));
    await actOnVolume(deps, remove);
    expect(await files.exists(DIRECTORY)).toBe(false);
  });

  test.each<{ name: string; volume?: PersistentVolume; claim?: PersistentVolumeClaim }>([
    { name: "the volume does not exist" },
    {
      name: "another volume has the name",
      volume: { ...released, metadata: { ...released.metadata, uid: "another" } },
    },
    { name: "the volume has no claim reference", volume: withoutClaim(released) },
    {
      name: "the claim reference has no uid",
      volume: aVolume("Released", { claimRef: { namespace: "ns", name: "data" } }),
    },
    {
      name: "the reclaim policy is Retain",
      volume: aVolume("Released", { persistentVolumeReclaimPolicy: "Retain" }),
    },
    { name: "the claim exists", volume: released, claim: aClaim() },
  ])("is retained when $name", async ({ volume, claim }) => {
    const { deps, store, disk, files } = await withStorage();
    if (volume !== undefined) store.put(PERSISTENT_VOLUMES, volume);
    if (claim !== undefined) store.put(PERSISTENT_VOLUME_CLAIMS, claim);
    await expect(actOnVolume(deps, remove)).rejects.toMatchObject({
      code: "RUNTIME_VOLUME_FAILED",
      details: { reason: "its claim exists again, or its reclaim policy was changed" },
    });
    expect(await files.exists(FILE)).toBe(true);
    expect(disk.mounts.size).toBe(1);
  });

  test.each([{ users: ["pod-1"] }, { users: ["pod-1", "pod-2"] }])(
    "is retained while $users use it",
    async ({ users }) => {
      const { deps, store, disk, files } = await withStorage();
      store.put(PERSISTENT_VOLUMES, released);
      for (const uid of users) await files.writeAtomic(`${DIRECTORY}/users/${uid}`, "");
      await expect(actOnVolume(deps, remove)).rejects.toMatchObject({
        details: { reason: `its claim was deleted, but pods still use it: ${users.join(", ")}` },
      });
      expect(await files.exists(FILE)).toBe(true);
      expect(disk.mounts.size).toBe(1);
    },
  );
});

describe("the object of a volume", () => {
  const held = aVolume("Released");
  const metadata = { ...held.metadata, finalizers: ["patchbay.io/local-volume", "example.com/x"] };

  test("is deleted", async () => {
    const { deps, store } = bench();
    store.put(PERSISTENT_VOLUMES, held);
    await actOnVolume(deps, { kind: "deleteVolume", name: HANDLE });
    expect(await stored(store)).toBeUndefined();
  });

  test("loses only our finalizer", async () => {
    const { deps, store } = bench();
    store.put(PERSISTENT_VOLUMES, { ...held, metadata });
    await actOnVolume(deps, { kind: "removeVolumeFinalizer", volume: held });
    expect((await stored(store))?.metadata.finalizers).toEqual(["example.com/x"]);
  });

  test("retains its finalizers if it has the same name but another uid", async () => {
    const { deps, store } = bench();
    store.put(PERSISTENT_VOLUMES, { ...held, metadata: { ...metadata, uid: "another" } });
    await actOnVolume(deps, { kind: "removeVolumeFinalizer", volume: held });
    expect((await stored(store))?.metadata.finalizers).toEqual(metadata.finalizers);
  });

  test("needs no action if it is already deleted", async () => {
    const { deps, store } = bench();
    await actOnVolume(deps, { kind: "removeVolumeFinalizer", volume: held });
    expect(await stored(store)).toBeUndefined();
  });
});
