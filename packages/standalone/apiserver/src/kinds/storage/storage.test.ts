// SPDX-License-Identifier: Apache-2.0
// Refusals and defaults of volumes, claims and classes.
import { expect, test } from "vitest";
import { changeRefusals, created, refusals } from "../../testing/judge.ts";
import type { Kind } from "../kind.ts";
import { PERSISTENT_VOLUME_CLAIM as CLAIM } from "./persistent-volume-claim.ts";
import { STORAGE_CLASS } from "./storage-class.ts";
import { PERSISTENT_VOLUME as VOLUME } from "./persistent-volume.ts";

const accessModes = ["ReadWriteOnce"];
const request = (storage: string) => ({ resources: { requests: { storage } } });
const volume = { accessModes, capacity: { storage: "1Gi" }, hostPath: { path: "/" } };
const ALL_MODES = '"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"';
const NOT_SIZE = "spec.resources[storage]: Invalid value";

test.each<{ name: string; kind: Kind; given: Record<string, unknown>; want: readonly string[] }>([
  { name: "all", kind: CLAIM, given: { spec: { accessModes, ...request("1Gi") } }, want: [] },
  {
    name: "nothing",
    kind: CLAIM,
    given: {},
    want: [
      "spec.accessModes: Required value: at least 1 access mode is required",
      "spec.resources[storage]: Required value",
    ],
  },
  {
    name: "a size of 0 and conflicting access modes",
    kind: CLAIM,
    given: {
      spec: {
        accessModes: ["ReadWriteOncePod", "Often"],
        volumeMode: "Tape",
        ...request("0"),
      },
    },
    want: [
      `spec.accessModes: Unsupported value: "Often": supported values: ${ALL_MODES}`,
      "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
      `${NOT_SIZE}: "0": must be greater than zero`,
      'spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"',
    ],
  },
  {
    name: "a negative size and a single access mode",
    kind: CLAIM,
    given: { spec: { accessModes: ["ReadWriteOncePod"], ...request("-1Gi") } },
    want: [`${NOT_SIZE}: "-1Gi": must be greater than zero`],
  },
  {
    name: "a small size",
    kind: CLAIM,
    given: { spec: { accessModes, ...request("1m") } },
    want: [],
  },
  { name: "all", kind: VOLUME, given: { spec: volume }, want: [] },
  {
    name: "nothing",
    kind: VOLUME,
    given: {},
    want: [
      "spec.accessModes: Required value",
      "spec.capacity: Required value",
      "spec: Required value: must specify a volume type",
    ],
  },
  {
    name: "two sources, and another policy",
    kind: VOLUME,
    given: {
      spec: {
        ...volume,
        nfs: {},
        claimRef: {},
        mountOptions: [],
        nodeAffinity: {},
        storageClassName: "s",
        volumeAttributesClassName: "a",
        persistentVolumeReclaimPolicy: "Burn",
      },
    },
    want: [
      "spec.nfs: Forbidden: may not specify more than 1 volume type",
      'spec.persistentVolumeReclaimPolicy: Unsupported value: "Burn": supported values: "Delete", "Recycle", "Retain"',
    ],
  },
  { name: "all", kind: STORAGE_CLASS, given: { provisioner: "p" }, want: [] },
  {
    name: "unsupported values",
    kind: STORAGE_CLASS,
    given: { reclaimPolicy: "Burn", volumeBindingMode: "Soon" },
    want: [
      "provisioner: Required value",
      'reclaimPolicy: Unsupported value: "Burn": supported values: "Delete", "Retain"',
      'volumeBindingMode: Unsupported value: "Soon": supported values: "Immediate", "WaitForFirstConsumer"',
    ],
  },
])("a $kind.kind with $name", ({ kind, given, want }) => {
  expect(refusals(kind, given)).toEqual(want);
});

const FIXED =
  "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
const NO_RESIZE =
  "spec.resources.requests.storage: Forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";

test.each<{
  name: string;
  kind: Kind;
  before: Record<string, unknown>;
  after: Record<string, unknown>;
  want: readonly string[];
}>([
  {
    name: "binds it and fills in a class",
    kind: CLAIM,
    before: { accessModes, storageClassName: "" },
    after: { accessModes, storageClassName: "s", volumeName: "v", volumeAttributesClassName: "a" },
    want: [],
  },
  {
    name: "binds it to another volume",
    kind: CLAIM,
    before: { volumeName: "v" },
    after: { volumeName: "w" },
    want: [FIXED],
  },
  {
    name: "changes its class",
    kind: CLAIM,
    before: { storageClassName: "s" },
    after: { storageClassName: "t" },
    want: [FIXED],
  },
  {
    name: "increases its size",
    kind: CLAIM,
    before: request("1Gi"),
    after: request("2Gi"),
    want: [NO_RESIZE],
  },
  {
    name: "releases it and increases its size",
    kind: VOLUME,
    before: { ...volume, claimRef: {} },
    after: { ...volume, capacity: { storage: "2Gi" } },
    want: [],
  },
  {
    name: "changes its path and volume mode",
    kind: VOLUME,
    before: volume,
    after: { ...volume, hostPath: { path: "/b" }, volumeMode: "Block" },
    want: [
      "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
      'spec.volumeMode: Invalid value: "Block": field is immutable',
    ],
  },
])("a change of a $kind.kind that $name", ({ kind, before, after, want }) => {
  expect(changeRefusals(kind, { spec: before }, { spec: after })).toEqual(want);
});

test("only volume expansion of a class can change", () => {
  const before = { provisioner: "p", parameters: { a: "b" } };
  const after = {
    provisioner: "q",
    reclaimPolicy: "Retain",
    volumeBindingMode: "WaitForFirstConsumer",
  };
  expect(changeRefusals(STORAGE_CLASS, before, { ...before, allowVolumeExpansion: true })).toEqual(
    [],
  );
  expect(changeRefusals(STORAGE_CLASS, before, after)).toEqual([
    "parameters: Forbidden: updates to parameters are forbidden.",
    "provisioner: Forbidden: updates to provisioner are forbidden.",
    "reclaimPolicy: Forbidden: updates to reclaimPolicy are forbidden.",
    'volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable',
  ]);
});

test.each([
  {
    kind: CLAIM,
    given: {},
    want: {
      finalizers: ["kubernetes.io/pvc-protection"],
      spec: { volumeMode: "Filesystem" },
    },
  },
  {
    kind: VOLUME,
    given: { spec: { volumeMode: "Block" } },
    want: {
      finalizers: ["kubernetes.io/pv-protection"],
      spec: { volumeMode: "Block", persistentVolumeReclaimPolicy: "Retain" },
    },
  },
  {
    kind: VOLUME,
    given: {
      metadata: { finalizers: ["x.io/a", "kubernetes.io/pv-protection"] },
      status: { phase: "Bound" },
    },
    want: {
      finalizers: ["x.io/a", "kubernetes.io/pv-protection"],
      spec: { volumeMode: "Filesystem", persistentVolumeReclaimPolicy: "Retain" },
    },
  },
  {
    kind: CLAIM,
    given: { metadata: { finalizers: ["x.io/a"] } },
    want: {
      finalizers: ["x.io/a", "kubernetes.io/pvc-protection"],
      spec: { volumeMode: "Filesystem" },
    },
  },
])("a new $kind.kind from $given is protected and pending", ({ kind, given, want }) => {
  const { metadata, spec, status } = created(kind, given);
  expect({ finalizers: metadata.finalizers, spec }).toEqual(want);
  expect(status).toEqual({ phase: "Pending" });
});
