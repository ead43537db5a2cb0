// SPDX-License-Identifier: Apache-2.0
// Metadata that clients send: how it is read, and what of it is refused.
import { expect, test } from "vitest";
import { RBAC_KINDS } from "../kinds/access/rbac.ts";
import { CONFIG_MAP } from "../kinds/config/config-map.ts";
import { LEASE, NODE } from "../kinds/cluster/node.ts";
import { POD } from "../kinds/workload/pod.ts";
import type { Kind } from "../kinds/kind.ts";
import type { Fields } from "../objects/json.ts";
import { objectOf, printCauses } from "../testing/judge.ts";
import { parseFieldSelector } from "../verbs/options/selection.ts";
import { findMissingFeature } from "./unserved-groups.ts";
import { decodeMeta, jsonTypeOf, validateMeta, validateMetaUpdate } from "./metadata.ts";

const owner = { apiVersion: "v1", kind: "Pod", name: "p", uid: "u" };
const [ROLE = CONFIG_MAP] = RBAC_KINDS;

test.each<{ name: string; given: unknown; want: Fields }>([
  { name: "nothing", given: undefined, want: { name: "" } },
  { name: "null", given: null, want: { name: "" } },
  {
    name: "known fields",
    given: {
      name: "n",
      generation: 2,
      labels: { a: "b", c: null },
      finalizers: ["x.io/a"],
      ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: false, other: 1 }],
    },
    want: {
      name: "n",
      generation: 2,
      labels: { a: "b", c: "" },
      finalizers: ["x.io/a"],
      ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: false }],
    },
  },
  {
    name: "unknown, empty and null fields",
    given: {
      name: "n",
      other: 1,
      selfLink: "s",
      managedFields: [{}],
      labels: {},
      annotations: {},
      finalizers: [],
      ownerReferences: [],
      uid: null,
    },
    want: { name: "n" },
  },
])("parses metadata: $name", ({ given, want }) => {
  expect(decodeMeta(given, "Pod")).toEqual(want);
});

const INTO = (given: string, field: string, type: string) =>
  `json: cannot unmarshal ${given} into Go struct field ${field} of type ${type}`;

test.each<{ given: unknown; want: string }>([
  { given: "x", want: INTO("string", "Pod.metadata", "v1.ObjectMeta") },
  { given: [], want: INTO("array", "Pod.metadata", "v1.ObjectMeta") },
  { given: { name: 5 }, want: INTO("number", "ObjectMeta.name", "string") },
  { given: { generation: "5" }, want: INTO("string", "ObjectMeta.generation", "int64") },
  { given: { generation: 5n }, want: INTO("number", "ObjectMeta.generation", "int64") },
  { given: { labels: [] }, want: INTO("array", "ObjectMeta.labels", "map[string]string") },
  { given: { labels: { a: true } }, want: INTO("bool", "ObjectMeta.labels", "string") },
  { given: { finalizers: {} }, want: INTO("object", "ObjectMeta.finalizers", "[]string") },
  { given: { finalizers: [1] }, want: INTO("number", "ObjectMeta.finalizers", "string") },
  {
    given: { ownerReferences: {} },
    want: INTO("object", "ObjectMeta.ownerReferences", "[]v1.OwnerReference"),
  },
  {
    given: { ownerReferences: ["x"] },
    want: INTO("string", "ObjectMeta.ownerReferences", "v1.OwnerReference"),
  },
  {
    given: { ownerReferences: [{ controller: "x" }] },
    want: INTO("string", "ObjectMeta.ownerReferences.controller", "boolean"),
  },
])("rejects the metadata $given: $want", ({ given, want }) => {
  expect(() => decodeMeta(given, "Pod")).toThrow(
    expect.objectContaining({ message: want, code: 400 }),
  );
});

test.each([
  { value: [], want: "array" },
  { value: {}, want: "object" },
  { value: true, want: "bool" },
  { value: 1, want: "number" },
  { value: 1n, want: "number" },
  { value: "", want: "string" },
])("Go calls $value $want", ({ value, want }) => {
  expect(jsonTypeOf(value)).toBe(want);
});

const KIB_256 = 256 * 1024;
const matching = (pattern: RegExp) => expect.stringMatching(pattern) as string;

test.each<{ name: string; kind?: Kind; meta: Fields; want: readonly string[] }>([
  { name: "a name and a namespace", meta: {}, want: [] },
  {
    name: "an empty name",
    meta: { name: "" },
    want: ["metadata.name: Required value: name or generateName is required"],
  },
  {
    name: "an invalid name",
    meta: { name: "A" },
    want: [matching(/^metadata\.name: Invalid value: "A": a lowercase RFC 1123 subdomain/)],
  },
  { name: "a name of a role", kind: ROLE, meta: { name: "system:a" }, want: [] },
  {
    name: "a name that no role has",
    kind: ROLE,
    meta: { name: "a/b" },
    want: [matching(/^metadata\.name: Invalid value: "a\/b": may not be/)],
  },
  { name: "generateName", meta: { generateName: "a-" }, want: [] },
  { name: "generateName with a dot", meta: { generateName: "a." }, want: [] },
  {
    name: "an invalid generateName",
    meta: { generateName: "a--A-" },
    want: [matching(/^metadata\.generateName: Invalid value: "a--A-": a lowercase/)],
  },
  {
    name: "an empty namespace",
    meta: { namespace: "" },
    want: [matching(/^metadata\.namespace: Invalid value: "": a lowercase RFC 1123 label/)],
  },
  {
    name: "a cluster-scoped object without a namespace",
    kind: NODE,
    meta: { namespace: undefined },
    want: [],
  },
  {
    name: "a cluster-scoped object with a namespace",
    kind: NODE,
    meta: {},
    want: ["metadata.namespace: Forbidden: not allowed on this type"],
  },
  {
    name: "invalid labels",
    meta: { labels: { "a b": "c d", e: "f" } },
    want: [
      matching(/^metadata\.labels: Invalid value: "a b": name part/),
      matching(/^metadata\.labels: Invalid value: "c d": a valid label/),
    ],
  },
  {
    name: "annotations with any characters and uppercase keys",
    meta: { annotations: { "X.io/A": " \n" } },
    want: [],
  },
  {
    name: "an annotation with an invalid key",
    meta: { annotations: { "a b": "c d" } },
    want: [matching(/^metadata\.annotations: Invalid value: "a b": name part/)],
  },
  {
    name: "annotations of 256 KiB",
    meta: { annotations: { ab: "x".repeat(KIB_256 - 3), c: "" } },
    want: [],
  },
  {
    name: "annotations above 256 KiB",
    meta: { annotations: { ab: "x".repeat(KIB_256 - 3), c: "ä" } },
    want: ["metadata.annotations: Too long: must have at most 262144 bytes"],
  },
  {
    name: "labels above 256 KiB",
    meta: { labels: { a: "x".repeat(KIB_256) } },
    want: ["metadata.labels: Too long: must have at most 262144 bytes"],
  },
  {
    name: "finalizers",
    meta: { finalizers: ["orphan", "kubernetes", "x.io/a"] },
    want: [],
  },
  {
    name: "an unqualified finalizer outside the core group",
    kind: LEASE,
    meta: { finalizers: ["mine"] },
    want: [],
  },
  {
    name: "invalid finalizers",
    meta: { finalizers: ["foregroundDeletion", "mine", "a b"] },
    want: [
      'metadata.finalizers[1]: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified',
      matching(/^metadata\.finalizers: Invalid value: "a b": name part/),
    ],
  },
  {
    name: "orphan and foreground deletion together",
    meta: { finalizers: ["orphan", "foregroundDeletion"] },
    want: [
      'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set',
    ],
  },
  { name: "a valid owner", meta: { ownerReferences: [{ ...owner, controller: true }] }, want: [] },
  {
    name: "an owner without required fields",
    meta: { ownerReferences: [{ name: "", uid: "u" }] },
    want: [
      'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
      'metadata.ownerReferences.kind: Invalid value: "": kind must not be empty',
      'metadata.ownerReferences.name: Invalid value: "": name must not be empty',
    ],
  },
  {
    name: "an event as an owner",
    meta: {
      ownerReferences: [
        { ...owner, kind: "Event" },
        { ...owner, kind: "Event", apiVersion: "v2" },
      ],
    },
    want: [
      'metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"p","uid":"u"}: /v1, Kind=Event is disallowed from being an owner',
    ],
  },
  {
    name: "two controllers",
    meta: {
      ownerReferences: ["a", "b", "c"].map((name) => ({
        ...owner,
        name,
        controller: name !== "b",
      })),
    },
    want: [
      matching(
        /^metadata\.ownerReferences: Invalid value: .*Only one reference can have Controller set to true\. Found "true" in references for Pod\/a and Pod\/c$/,
      ),
    ],
  },
])("validates metadata: $name", ({ kind = CONFIG_MAP, meta, want }) => {
  const object = objectOf(kind, { metadata: { namespace: "n", ...meta } });
  expect(printCauses(validateMeta(kind, object))).toEqual(want);
});

test.each([
  { deleted: false, before: [], after: ["x.io/a"], want: [] },
  { deleted: true, before: ["x.io/a", "x.io/b"], after: ["x.io/b"], want: [] },
  { deleted: true, before: ["x.io/a"], after: undefined, want: [] },
  {
    deleted: true,
    before: undefined,
    after: ["x.io/a", "x.io/b"],
    want: [
      'metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"x.io/a", "x.io/b"}',
    ],
  },
])("finalizers from $before to $after, deleted: $deleted", ({ deleted, before, after, want }) => {
  const deletion = deleted ? { deletionTimestamp: "2024-01-01T00:00:00Z" } : {};
  const current = objectOf(POD, { metadata: { finalizers: before, ...deletion } });
  const object = objectOf(POD, { metadata: { finalizers: after } });
  expect(printCauses(validateMetaUpdate(object, current))).toEqual(want);
});

const pod = objectOf(POD, {
  metadata: { name: "p", namespace: "n" },
  spec: { nodeName: "a,b\\c" },
  status: { phase: "Running" },
});

test.each([
  { selector: "metadata.name=p", want: true, name: "p" },
  { selector: "metadata.name==q", want: false, name: "q" },
  { selector: "metadata.name!=p", want: false, name: undefined },
  { selector: "metadata.namespace=n,status.phase=Running", want: true, name: undefined },
  { selector: "metadata.namespace=n,status.phase=Failed", want: false, name: undefined },
  { selector: "status.phase!=Failed,metadata.name=p,", want: true, name: "p" },
  { selector: String.raw`spec.nodeName=a\,b\\c`, want: true, name: undefined },
  { selector: "status.podIP=", want: true, name: undefined },
])("the field selector $selector matches the pod: $want", ({ selector, want, name }) => {
  const parsed = parseFieldSelector(selector, POD);
  expect(parsed?.matches(pod)).toBe(want);
  expect(parsed?.name).toBe(name);
});

test.each(["", ","])("the selector %j matches everything", (selector) => {
  expect(parseFieldSelector(selector, POD)).toBeUndefined();
});

test.each([
  { selector: "a", want: 'invalid field selector: "a"; can\'t understand it' },
  { selector: "=b", want: 'invalid field selector: "=b"; can\'t understand it' },
  {
    selector: "spec.x=1",
    want: 'Unable to find "v1, Resource=pods" that match label selector "", field selector "spec.x=1": "spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
  },
  { selector: "toString=1", want: /"toString" is not a known field selector/ },
])("rejects the selector $selector: $want", ({ selector, want }) => {
  expect(() => parseFieldSelector(selector, POD)).toThrow(want);
});

test.each([
  { group: "snapshot.kubevirt.io", want: "snapshots of VMs" },
  { group: "cdi.kubevirt.io", want: matching(/^the Containerized Data Importer/) },
  { group: "x.io", want: undefined },
  { group: "toString", want: undefined },
])("the missing feature of group $group is $want", ({ group, want }) => {
  expect(findMissingFeature(group)).toEqual(want);
});
