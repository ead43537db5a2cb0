// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { POD } from "../../kinds/workload/pod.ts";
import type { KubeObject, OwnerReference } from "../../objects/object.ts";
import { FakeWebhooks } from "../fake-webhooks.ts";
import { admissionRequest } from "../webhook-server.ts";
import type { AdmissionRequest } from "../../admission/admission.ts";
import { CONFIG_MAP } from "../../kinds/config/config-map.ts";
import { NODE } from "../../kinds/cluster/node.ts";
import {
  checkOwnerRights,
  dropImageVolumes,
  addServerFields,
  recordManagers,
  strictAdmission,
} from "./strict-admission.ts";

function aPod(): KubeObject {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", namespace: "ns" },
    spec: { volumes: [{ name: "i", image: {} }] },
  };
}

const BODY = { group: "", version: "v1", kind: "Binding" };
const complete = (object: KubeObject): KubeObject => object;

/** Strict admission that grants no rights on owners. */
function makeStrict() {
  const webhooks = new FakeWebhooks();
  const admission = strictAdmission(webhooks, {
    authorizer: { authorize: () => ({ allowed: false, reason: "" }) },
    registry: { findByKind: () => undefined },
  });
  return { webhooks, admission };
}

describe("strict admission", () => {
  test("adds default fields after mutating webhooks, and warns about dropped fields", async () => {
    const { webhooks, admission } = makeStrict();
    webhooks.change = (object) => {
      object.metadata.labels = { a: "b" };
    };
    const asked = admissionRequest({ kind: POD, object: aPod() });
    const pod = await admission.mutate(asked, complete);
    expect(pod.metadata.labels).toEqual({ a: "b" });
    expect(pod["spec"]).toMatchObject({
      volumes: [{ name: "i", emptyDir: {} }],
      tolerations: [{}, {}],
    });
    expect(pod.metadata.managedFields).toHaveLength(1);
    expect(asked.warnings).toEqual(['unknown field "spec.volumes[0].image"']);
  });

  test("does not add fields to objects that are not stored", async () => {
    const { admission } = makeStrict();
    const given = admissionRequest({ kind: POD, object: aPod(), bodyKind: BODY });
    const pod = await admission.mutate(given, complete);
    expect(pod.metadata.managedFields).toBeUndefined();
    expect(pod["spec"]).not.toHaveProperty("tolerations");
  });

  test("rejects owner references before webhooks receive the object", async () => {
    const { webhooks, admission } = makeStrict();
    const owned = aPod();
    owned.metadata.ownerReferences = [
      { apiVersion: "v1", kind: "ConfigMap", name: "o", uid: "1", blockOwnerDeletion: true },
    ];
    const refused = admission.validate(admissionRequest({ kind: POD, object: owned }));
    await expect(refused).rejects.toMatchObject({ code: 403 });
    expect(webhooks.recorded).toEqual([]);
  });

  test("passes other requests to webhooks", async () => {
    const { webhooks, admission } = makeStrict();
    await admission.validate(admissionRequest({ kind: POD, object: aPod() }));
    await admission.admitDeletion(admissionRequest({ kind: POD, oldObject: aPod() }));
    expect(webhooks.recorded.map(({ phase }) => phase)).toEqual(["validate", "delete"]);
  });
});

describe("with recorded managers", () => {
  test("adds only managed fields to stored objects", async () => {
    const admission = recordManagers(new FakeWebhooks());
    const pod = await admission.mutate(admissionRequest({ kind: POD, object: aPod() }), complete);
    expect(pod.metadata.managedFields).toHaveLength(1);
    expect(pod["spec"]).toEqual(aPod()["spec"]);
  });

  test("does not add managed fields to objects that are not stored", async () => {
    const admission = recordManagers(new FakeWebhooks());
    const asked = admissionRequest({ kind: POD, object: aPod(), bodyKind: BODY });
    expect(await admission.mutate(asked, complete)).toEqual(aPod());
  });

  test("passes other requests to webhooks", async () => {
    const webhooks = new FakeWebhooks();
    const admission = recordManagers(webhooks);
    await admission.validate(admissionRequest());
    await admission.admitDeletion(admissionRequest());
    expect(webhooks.recorded.map(({ phase }) => phase)).toEqual(["validate", "delete"]);
  });
});

function podWith(volumes: readonly unknown[], kind = "Pod"): KubeObject {
  return { apiVersion: "v1", kind, metadata: { name: "p" }, spec: { volumes } };
}

test("replaces an image volume by an empty directory, and reports the path", () => {
  const pod = podWith([
    { name: "a", emptyDir: { medium: "Memory" } },
    { name: "b", image: {} },
  ]);
  expect(dropImageVolumes(pod)).toEqual(["spec.volumes[1].image"]);
  const volumes = [
    { name: "a", emptyDir: { medium: "Memory" } },
    { name: "b", emptyDir: {} },
  ];
  expect(pod["spec"]).toEqual({ volumes });
  expect(dropImageVolumes(pod)).toEqual([]);
});

test("does not change other kinds or invalid volume lists", () => {
  const other = podWith([{ name: "b", image: {} }], "Thing");
  expect(dropImageVolumes(other)).toEqual([]);
  expect(other["spec"]).toEqual({ volumes: [{ name: "b", image: {} }] });
  expect(dropImageVolumes(podWith(["b"]))).toEqual([]);
  expect(dropImageVolumes({ apiVersion: "v1", kind: "Pod", metadata: { name: "p" } })).toEqual([]);
});

function aRunningPod(): KubeObject {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", namespace: "ns", labels: { a: "b" } },
    spec: { containers: [{ name: "c", image: "i" }] },
    status: {
      conditions: [{ type: "Ready", status: "True" }],
      containerStatuses: [{ name: "c", ready: true }],
    },
  };
}

test("a pod gets tolerations, nulls, empty members and managed fields", () => {
  const pod = addServerFields(aRunningPod());
  expect(pod["spec"]).toMatchObject({
    tolerations: [
      { key: "node.kubernetes.io/not-ready", effect: "NoExecute", tolerationSeconds: 300 },
      { key: "node.kubernetes.io/unreachable" },
    ],
  });
  expect(pod["status"]).toMatchObject({
    conditions: [{ type: "Ready", lastProbeTime: null, lastTransitionTime: null }],
    containerStatuses: [{ name: "c", lastState: {}, state: {}, imageID: "" }],
  });
  expect(pod.metadata.managedFields).toMatchObject([
    {
      operation: "Update",
      fieldsV1: {
        "f:metadata": { "f:labels": { "f:a": {} } },
        "f:spec": { "f:containers": { 'k:{"name":"c"}': { ".": {}, "f:image": {} } } },
      },
    },
    { subresource: "status", fieldsV1: { "f:status": {} } },
  ]);
});

test("does not overwrite existing fields", () => {
  const toleration = { key: "node.kubernetes.io/not-ready", operator: "Exists" };
  const condition = { type: "Ready", lastProbeTime: "t", lastTransitionTime: "u" };
  const container = { name: "c", lastState: { a: 1 }, state: { b: 1 }, imageID: "i" };
  const pod = addServerFields({
    ...aRunningPod(),
    spec: { tolerations: [toleration] },
    status: { conditions: [condition, "text"], containerStatuses: [container, "text"] },
  });
  expect(pod["spec"]).toEqual({
    tolerations: [
      toleration,
      {
        key: "node.kubernetes.io/unreachable",
        operator: "Exists",
        effect: "NoExecute",
        tolerationSeconds: 300,
      },
    ],
  });
  expect(pod["status"]).toEqual({
    conditions: [condition, "text"],
    containerStatuses: [container, "text"],
  });
});

test.each([
  { apiVersion: "v1", kind: "Node" },
  { apiVersion: "other.io/v1", kind: "Pod" },
])("$apiVersion $kind gets managed fields only", (type) => {
  const given = { ...aRunningPod(), ...type };
  const { metadata, ...filled } = addServerFields(structuredClone(given));
  expect({ ...filled, metadata: given.metadata }).toEqual(given);
  expect(metadata.managedFields).toHaveLength(2);
});

test("is idempotent", () => {
  const once = addServerFields(aRunningPod());
  expect(addServerFields(structuredClone(once))).toEqual(once);
});

const KINDS = [CONFIG_MAP, NODE];

function owner(change: Partial<OwnerReference> = {}): OwnerReference {
  return { apiVersion: "v1", kind: "ConfigMap", name: "o", uid: "1", ...change };
}

const PLAIN = owner();
const BLOCKING = owner({ blockOwnerDeletion: true });

function ownedBy(...ownerReferences: OwnerReference[]): KubeObject {
  return { apiVersion: "v1", kind: "Pod", metadata: { name: "p", ownerReferences } };
}

/** What was asked about rights, as `verb resource namespace/name`; all are refused but those. */
function check(change: Partial<AdmissionRequest>, ...held: readonly string[]): readonly string[] {
  const asked: string[] = [];
  const request: AdmissionRequest = {
    kind: POD,
    subresource: "",
    operation: "CREATE",
    namespace: "ns",
    name: "p",
    object: undefined,
    oldObject: undefined,
    options: {},
    user: { name: "jane", groups: [] },
    dryRun: false,
    warnings: [],
    ...change,
  };
  checkOwnerRights(request, {
    authorizer: {
      authorize: (_user, { verb, resource, subresource, namespace, name }) => {
        const whole = subresource === "" ? resource : `${resource}/${subresource}`;
        const right = `${verb} ${whole} ${namespace}/${name}`;
        asked.push(right);
        return { allowed: held.includes(right), reason: "" };
      },
    },
    registry: { findByKind: (_apiVersion, name) => KINDS.find(({ kind }) => kind === name) },
  });
  return asked;
}

const FINALIZERS = "update configmaps/finalizers ns/o";
const NODE_FINALIZERS = "update nodes/finalizers /n";
const DELETE = "delete pods ns/p";
const BLOCKING_NODE = owner({ kind: "Node", name: "n", uid: "2", blockOwnerDeletion: true });
const UPDATE = { operation: "UPDATE" } as const;

describe("required permissions", () => {
  test.each<{ name: string; change: Partial<AdmissionRequest>; want: readonly string[] }>([
    { name: "are empty for a new object without owners", change: { object: ownedBy() }, want: [] },
    {
      name: "are empty for a new object with owners",
      change: { object: ownedBy(PLAIN) },
      want: [],
    },
    {
      name: "include the finalizers of owners that a new object blocks",
      change: { object: ownedBy(BLOCKING, BLOCKING_NODE) },
      want: [FINALIZERS, NODE_FINALIZERS],
    },
    {
      name: "are empty for an update with the same owners",
      change: { ...UPDATE, oldObject: ownedBy(BLOCKING), object: ownedBy(BLOCKING) },
      want: [],
    },
    {
      name: "include deletion if an owner is removed",
      change: { ...UPDATE, oldObject: ownedBy(BLOCKING), object: ownedBy() },
      want: [DELETE],
    },
    {
      name: "include deletion and the finalizers of a newly blocked owner",
      change: { ...UPDATE, oldObject: ownedBy(PLAIN), object: ownedBy(BLOCKING) },
      want: [DELETE, FINALIZERS],
    },
    {
      name: "omit the finalizers of an owner that was already blocked",
      change: { ...UPDATE, oldObject: ownedBy(BLOCKING), object: ownedBy(BLOCKING, PLAIN) },
      want: [DELETE],
    },
    {
      name: "are empty for a pod's status",
      change: { ...UPDATE, subresource: "status", oldObject: ownedBy(), object: ownedBy(BLOCKING) },
      want: [],
    },
  ])("$name", ({ change, want }) => {
    expect(check(change, FINALIZERS, NODE_FINALIZERS, DELETE)).toEqual(want);
  });
});

describe("rejected owner references", () => {
  test.each<{ name: string; change: Partial<AdmissionRequest>; held: string; why: string }>([
    {
      name: "that block an owner without the permission for its finalizers",
      change: { object: ownedBy(BLOCKING) },
      held: "",
      why: 'pods "p" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to',
    },
    {
      name: "that change owners of an object without the permission to delete it",
      change: { ...UPDATE, oldObject: ownedBy(), object: ownedBy(BLOCKING) },
      held: FINALIZERS,
      why: "cannot set an ownerRef on a resource you can't delete",
    },
    {
      name: "that block an owner of an unknown kind",
      change: { object: ownedBy(owner({ kind: "Ghost", blockOwnerDeletion: true })) },
      held: FINALIZERS,
      why: "because cannot find RESTMapping for APIVersion v1 Kind Ghost",
    },
  ])("$name", ({ change, held, why }) => {
    expect(() => check(change, held)).toThrow(why);
  });
});
