// SPDX-License-Identifier: Apache-2.0
import type {
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
} from "@patchbay/api/kubernetes";
import { expect, test } from "vitest";
import { aPod } from "../../testing/pods.ts";
import { aClaim, aClass, aVolume, HANDLE, withoutClaim } from "../testing.ts";
import { planPodClaims } from "./pod-claims.ts";

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
  readonly volume?: PersistentVolume;
  readonly want: {
    readonly areBound: boolean;
    readonly problems: readonly string[];
    readonly selected: number;
    readonly requeueAfterMs?: number;
  };
}

function waits(...problems: readonly string[]): Row["want"] {
  return { areBound: false, problems, selected: 0 };
}

test.each<Row>([
  {
    name: "waits for a missing claim",
    want: waits('persistentvolumeclaim "data" not found'),
  },
  {
    name: "triggers the provisioning of a claim that waits for a consumer",
    claim: NEW,
    storageClass: aClass(),
    want: { ...waits(), selected: 1, requeueAfterMs: 30_000 },
  },
  {
    name: "waits without a report while its claim is provisioned",
    claim: aClaim(),
    storageClass: aClass(),
    want: { ...waits(), requeueAfterMs: 30_000 },
  },
  { name: "starts when its claim is bound", claim: BOUND, want: { ...waits(), areBound: true } },
  {
    name: "does not use a claim that is being deleted",
    claim: { ...BOUND, metadata: { ...BOUND.metadata, deletionTimestamp: "now" } },
    want: waits('persistentvolumeclaim "data" is being deleted'),
  },
  {
    name: "does not start with a lost volume",
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
    want: waits('persistentvolumeclaim "data" names storage class "local", which does not exist'),
  },
  {
    name: "waits without a report for a claim of binding mode Immediate",
    claim: NEW,
    storageClass: aClass({ volumeBindingMode: "Immediate" }),
    want: { ...waits(), requeueAfterMs: 30_000 },
  },
  {
    name: "does not trigger another provisioner",
    claim: NEW,
    storageClass: aClass({ provisioner: "nfs" }),
    want: waits("pod has unbound immediate PersistentVolumeClaims: data"),
  },
  {
    name: "waits without a report for a volume whose claim is not Bound yet",
    claim: aClaim({ volumeName: HANDLE }),
    storageClass: aClass(),
    volume: aVolume(),
    want: { ...waits(), requeueAfterMs: 30_000 },
  },
  {
    name: "waits without a report for an available volume that its claim names",
    claim: aClaim({ volumeName: HANDLE, storageClassName: "" }),
    volume: withoutClaim(aVolume("Available")),
    want: { ...waits(), requeueAfterMs: 30_000 },
  },
  {
    name: "waits for a volume",
    claim: aClaim({ volumeName: "old" }),
    storageClass: aClass(),
    volume: aVolume(),
    want: waits('persistentvolumeclaim "data" names volume "old", which does not exist'),
  },
  {
    name: "waits for a volume that another claim has",
    claim: aClaim({ volumeName: HANDLE }),
    storageClass: aClass(),
    volume: aVolume("Bound", { claimRef: { namespace: "ns", name: "data", uid: "before" } }),
    want: waits(
      `persistentvolumeclaim "data" names volume "${HANDLE}", which is bound to another claim`,
    ),
  },
])("a pod $name", ({ claim, storageClass, volume, want }) => {
  const lookup = {
    findClaim: (name: string) => (name === "data" ? claim : undefined),
    findClass: (name: string) => (name === "local" ? storageClass : undefined),
    findVolume: (name: string) => (name === volume?.metadata.name ? volume : undefined),
  };
  const { claimsToSelect, ...plan } = planPodClaims(POD, lookup, 0);
  expect({ ...plan, selected: claimsToSelect.length }).toEqual(want);
});

const BORN_MS = Date.parse("2026-01-01T00:01:00Z");
const LATE =
  'persistentvolumeclaim "data" is still not bound; for the reason, run: kubectl describe pvc data';

test.each([
  { name: "29 s", afterMs: 29_000, selected: true, problems: [], requeueAfterMs: 1000 },
  { name: "30 s", afterMs: 30_000, selected: true, problems: [LATE], requeueAfterMs: undefined },
  // It is begun first.
  { name: "30 s", afterMs: 30_000, selected: false, problems: [], requeueAfterMs: undefined },
])(
  "a claim whose provisioning has begun ($selected) is checked $name after creation",
  ({ afterMs, selected, problems, requeueAfterMs }) => {
    const claim = selected ? aClaim() : NEW;
    const pod = {
      ...POD,
      metadata: { ...POD.metadata, creationTimestamp: "2026-01-01T00:00:00Z" },
    };
    const created = { ...claim.metadata, creationTimestamp: "2026-01-01T00:01:00Z" };
    const lookup = {
      findClaim: () => ({ ...claim, metadata: created }),
      findClass: () => aClass(),
      findVolume: () => undefined,
    };
    const plan = planPodClaims(pod, lookup, BORN_MS + afterMs);
    expect(plan.problems).toEqual(problems);
    expect(plan.requeueAfterMs).toBe(requeueAfterMs);
    expect(plan.claimsToSelect).toHaveLength(selected ? 0 : 1);
  },
);

test("a pod with another missing claim does not begin provisioning", () => {
  const volumes = ["data", "none"].map((claimName) => ({
    name: claimName,
    persistentVolumeClaim: { claimName },
  }));
  const lookup = {
    findClaim: (name: string) => (name === "data" ? NEW : undefined),
    findClass: () => aClass(),
    findVolume: () => undefined,
  };
  expect(planPodClaims(aPod({ volumes }), lookup, 0)).toEqual({
    areBound: false,
    claimsToSelect: [],
    requeueAfterMs: 30_000,
    problems: ['persistentvolumeclaim "none" not found'],
  });
});

test("a pod without claims may start", () => {
  const none = (): undefined => undefined;
  const lookup = { findClaim: none, findClass: none, findVolume: none };
  expect(planPodClaims(aPod(), lookup, 0)).toEqual({
    areBound: true,
    problems: [],
    claimsToSelect: [],
  });
});
