// SPDX-License-Identifier: Apache-2.0
import type { PersistentVolumeClaim, StorageClass } from "@patchbay/api";
import { expect, test } from "vitest";
import { aPod } from "../../testing/pods.ts";
import { aClaim, aClass } from "../testing.ts";
import { podClaimsOf } from "./pod-claims.ts";

const POD = aPod({
  volumes: [
    { name: "a", emptyDir: {} },
    { name: "b", persistentVolumeClaim: { claimName: "data" } },
    { name: "c", persistentVolumeClaim: { claimName: "data", readOnly: true } },
  ],
});
const NEW = aClaim({}, { metadata: { name: "data", namespace: "ns" } });
const BOUND = aClaim({}, { status: { phase: "Bound" } });

interface Row {
  readonly name: string;
  readonly claim?: PersistentVolumeClaim;
  readonly storageClass?: StorageClass;
  readonly want: { areBound: boolean; problems: readonly string[]; selected: number };
}

function waits(...problems: readonly string[]): Row["want"] {
  return { areBound: false, problems, selected: 0 };
}

test.each<Row>([
  {
    name: "waits for a claim that is not there",
    want: waits('persistentvolumeclaim "data" not found'),
  },
  {
    name: "begins a claim that waits for it",
    claim: NEW,
    storageClass: aClass(),
    want: { areBound: false, problems: [], selected: 1 },
  },
  {
    name: "waits quietly for a claim that was begun",
    claim: aClaim(),
    storageClass: aClass(),
    want: { areBound: false, problems: [], selected: 0 },
  },
  { name: "goes when its claim is bound", claim: BOUND, want: { ...waits(), areBound: true } },
  {
    name: "does not take a claim that goes",
    claim: { ...BOUND, metadata: { ...BOUND.metadata, deletionTimestamp: "now" } },
    want: waits('persistentvolumeclaim "data" is being deleted'),
  },
  {
    name: "does not go without what was lost",
    claim: aClaim({}, { status: { phase: "Lost" } }),
    want: waits('persistentvolumeclaim "data" has lost its PersistentVolume'),
  },
  {
    name: "waits for a claim without class",
    claim: aClaim({ storageClassName: "" }),
    want: waits('persistentvolumeclaim "data" is not bound and has no storage class'),
  },
  {
    name: "waits for a class",
    claim: NEW,
    want: waits('persistentvolumeclaim "data" names storage class "local", which is not there'),
  },
  {
    name: "waits for who makes volumes at once",
    claim: NEW,
    storageClass: aClass({ volumeBindingMode: "Immediate" }),
    want: waits("pod has unbound immediate PersistentVolumeClaims: data"),
  },
  {
    name: "begins no claim of others",
    claim: NEW,
    storageClass: aClass({ provisioner: "nfs" }),
    want: waits("pod has unbound immediate PersistentVolumeClaims: data"),
  },
  {
    name: "begins no claim that names its volume",
    claim: aClaim({ volumeName: "old" }),
    storageClass: aClass(),
    want: waits("pod has unbound immediate PersistentVolumeClaims: data"),
  },
])("a pod $name", ({ claim, storageClass, want }) => {
  const { areBound, problems, toSelect } = podClaimsOf(POD, {
    findClaim: (name) => (name === "data" ? claim : undefined),
    findClass: (name) => (name === "local" ? storageClass : undefined),
  });
  expect({ areBound, problems, selected: toSelect.length }).toEqual(want);
});

test("a pod that will wait all the same begins no claim", () => {
  const volumes = ["data", "none"].map((claimName) => ({
    name: claimName,
    persistentVolumeClaim: { claimName },
  }));
  const lookup = {
    findClaim: (name: string) => (name === "data" ? NEW : undefined),
    findClass: () => aClass(),
  };
  expect(podClaimsOf(aPod({ volumes }), lookup)).toEqual({
    ...{ areBound: false, toSelect: [] },
    problems: ['persistentvolumeclaim "none" not found'],
  });
});

test("a pod without claims goes", () => {
  const lookup = { findClaim: () => undefined, findClass: () => undefined };
  expect(podClaimsOf(aPod(), lookup).areBound).toBe(true);
});
