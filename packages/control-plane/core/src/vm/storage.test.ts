// SPDX-License-Identifier: Apache-2.0
// What of a VMI's storage keeps its launcher from being made, and what is told of its volumes.
import {
  readStorageConfig,
  type StorageConfig,
  type VirtualMachineInstance,
  type VmiSpec,
  type Volume,
} from "@patchbay/api";
import type { PersistentVolumeClaim } from "@patchbay/api/kubernetes";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { buildVolumeStatuses } from "../status/volumes.ts";
import { findVmiSyncError } from "../status/sync-error.ts";
import { aClaim, CLUSTER, SETTINGS } from "../testing/launcher-facts.ts";
import { findStorageFault, waitsForBinding, type StorageFacts } from "./storage.ts";
import { planVmi } from "./vmi.ts";

const ON_CLAIM: Volume = { name: "a", persistentVolumeClaim: { claimName: "c" } };

function vmiWith(volumes: Volume[], devices: VmiSpec["domain"]["devices"] = {}) {
  return { ...aVmi(), spec: { domain: { devices }, volumes } };
}

function storageOf(
  claims: readonly PersistentVolumeClaim[],
  config: StorageConfig = readStorageConfig(undefined),
): StorageFacts {
  return { claims: new Map(claims.map((claim) => [claim.metadata.name, claim])), config };
}

const FILLING = { "cdi.kubevirt.io/storage.pod.phase": "Running" };
const FAILED = { "cdi.kubevirt.io/storage.pod.phase": "Failed" };
const FAILING = {
  ...FILLING,
  "cdi.kubevirt.io/storage.condition.running.reason": "Error",
  "cdi.kubevirt.io/storage.condition.running.message": "no such host",
};
const FILLED = { "cdi.kubevirt.io/storage.pod.phase": "Succeeded" };

interface Case {
  readonly title: string;
  readonly volume?: Volume;
  readonly claims: readonly PersistentVolumeClaim[];
  readonly want: string | undefined;
}

describe("no launcher is created", () => {
  test.each<Case>([
    { title: "without its claim", claims: [aClaim("other")], want: "FailedPvcNotFound" },
    {
      title: "without the claim of an ephemeral disk",
      volume: { name: "a", ephemeral: { persistentVolumeClaim: { claimName: "c" } } },
      claims: [],
      want: "FailedPvcNotFound",
    },
    {
      title: "without the claim of a DataVolume",
      volume: { name: "a", dataVolume: { name: "c" } },
      claims: [],
      want: "FailedDataVolumeNotFound",
    },
    {
      title: "with a claim that is being deleted",
      claims: [aClaim("c", { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } })],
      want: "ClaimTerminating",
    },
    {
      title: "with a claim that has lost its volume",
      claims: [aClaim("c", { status: { phase: "Lost" } })],
      want: "ClaimLost",
    },
    {
      title: "with a claim that is being populated",
      claims: [aClaim("c", { metadata: { annotations: FILLING } })],
      want: "DataVolumeNotReady",
    },
    {
      title: "with a claim whose population keeps failing",
      claims: [aClaim("c", { metadata: { annotations: FAILING } })],
      want: "DataVolumeError",
    },
    {
      title: "with a claim whose population has failed",
      claims: [aClaim("c", { metadata: { annotations: FAILED } })],
      want: "DataVolumeError",
    },
  ])("$title", ({ volume = ON_CLAIM, claims, want }) => {
    const vmi = vmiWith([volume]);
    const storage = storageOf(claims);
    expect(findStorageFault(vmi, storage)?.reason).toBe(want);
    expect(findStorageFault(vmi, storage)?.message).toMatch(/^spec\.volumes\[0\]\.\w+: .* c /);
  });

  test("for a LUN on a file, which supports no SCSI commands", () => {
    const vmi = vmiWith([ON_CLAIM], { disks: [{ name: "a", lun: { bus: "scsi" } }] });
    expect(findStorageFault(vmi, storageOf([aClaim("c")]))?.reason).toBe("LunNeedsBlockClaim");
    const block = aClaim("c", { spec: { volumeMode: "Block" } });
    expect(findStorageFault(vmi, storageOf([block]))).toBeUndefined();
  });
});

test.each([
  { title: "bound", claim: aClaim("c") },
  { title: "not bound yet, which the scheduler handles", claim: aClaim("c", { status: {} }) },
  { title: "filled", claim: aClaim("c", { metadata: { annotations: FILLED } }) },
])("a launcher is created with a claim that is $title", ({ claim }) => {
  expect(findStorageFault(vmiWith([ON_CLAIM]), storageOf([claim]))).toBeUndefined();
});

test("passes on CDI's message", () => {
  const reported = (annotations: Record<string, string>) =>
    findStorageFault(vmiWith([ON_CLAIM]), storageOf([aClaim("c", { metadata: { annotations } })]));
  expect(reported(FAILING)?.message).toMatch(/ cannot be filled: no such host$/);
  expect(reported(FAILED)?.message).toMatch(/ cannot be filled: Failed$/);
});

test.each([
  { title: "its claim is bound", claims: [aClaim("c")], want: false },
  { title: "its claim is not bound", claims: [aClaim("c", { status: {} })], want: true },
  { title: "its claim does not exist", claims: [], want: false },
  { title: "another claim is not bound", claims: [aClaim("d", { status: {} })], want: false },
])("a VMI waits for the binding of its volume if $title: $want", ({ claims, want }) => {
  expect(waitsForBinding(vmiWith([ON_CLAIM]), storageOf(claims).claims)).toBe(want);
});

const GATE = { developerConfiguration: { featureGates: ["HostDisk"] } };

test.each([
  { configuration: {}, path: "/data/a.img", says: /HostDisk/ },
  { configuration: { hostDiskDirectories: ["/data"] }, path: "/data/a.img", says: /HostDisk/ },
  { configuration: GATE, path: "/data/a.img", says: /\(none\)/ },
  {
    configuration: { ...GATE, hostDiskDirectories: ["/data", "/b"] },
    path: "/data/sub/a.img",
    says: /\(\/data, \/b\)/,
  },
  {
    configuration: { ...GATE, hostDiskDirectories: ["/data"] },
    path: "/data/../a.img",
    says: /is not directly below one of/,
  },
  {
    configuration: { ...GATE, hostDiskDirectories: ["/data"] },
    path: "/data/a.img",
    says: undefined,
  },
])("a host file at $path with $configuration: $says", ({ configuration, path, says: message }) => {
  const kubevirt = {
    apiVersion: "kubevirt.io/v1",
    kind: "KubeVirt",
    metadata: { name: "kubevirt" },
    spec: { configuration },
  };
  const vmi = vmiWith([{ name: "a", hostDisk: { path, type: "Disk" } }]);
  const blockedReason = findStorageFault(vmi, storageOf([], readStorageConfig(kubevirt)));
  expect(blockedReason?.reason).toBe(message === undefined ? undefined : "HostDiskNotAllowed");
  expect(blockedReason?.message ?? "").toMatch(message ?? /^$/);
});

test("reports a missing claim instead of creating the launcher", () => {
  const { volumes } = vmiWith([ON_CLAIM]).spec;
  const bare = aVmi();
  const vmi: VirtualMachineInstance = {
    ...bare,
    spec: { ...bare.spec, domain: { ...bare.spec.domain } },
  };
  const facts = { ...CLUSTER, vmi, pod: undefined, settings: SETTINGS };
  const withVolume = { ...facts, vmi: { ...vmi, spec: { ...vmi.spec, volumes } } };
  expect(planVmi(facts).map(({ kind }) => kind)).toEqual(["createPod"]);
  expect(planVmi(withVolume)).toEqual([]);
  expect(findVmiSyncError({ ...facts, failures: [] })).toBeUndefined();
});

test("reports each volume's claim, even if the claim is not cached", () => {
  const block = aClaim("c", {
    spec: { accessModes: ["ReadWriteOnce"], volumeMode: "Block" },
  });
  const vmi = vmiWith([ON_CLAIM, { name: "b", emptyDisk: { capacity: 1 } }]);
  const reported = buildVolumeStatuses(vmi, storageOf([block]).claims);
  expect(reported).toEqual([
    {
      name: "a",
      target: "",
      persistentVolumeClaimInfo: {
        claimName: "c",
        volumeMode: "Block",
        accessModes: ["ReadWriteOnce"],
        capacity: { storage: "1Gi" },
      },
    },
    { name: "b", target: "" },
  ]);
  const later = { ...vmi, status: { volumeStatus: [...reported] } };
  expect(buildVolumeStatuses(later, new Map())).toEqual(reported);
});
