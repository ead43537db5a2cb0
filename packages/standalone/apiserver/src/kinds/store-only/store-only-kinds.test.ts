// SPDX-License-Identifier: Apache-2.0
// Columns, defaults, refusals and scale of kinds that no controller handles.
import { expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import { cellsOf, objectOf, refusals, withDefaults } from "../../testing/judge.ts";
import type { Kind } from "../kind.ts";
import { STORE_ONLY_KINDS } from "./store-only-kinds.ts";

const CREATED = "2024-01-01T00:00:00Z";
/** A minute after `CREATED`. */
const NOW_MS = 1_704_067_260_000;
const template = {
  spec: {
    containers: [
      { name: "a", image: "i" },
      { name: "b", image: "j" },
    ],
  },
};
const TEMPLATE = { Containers: "a,b", Images: "i,j" };

interface Row {
  readonly kind: string;
  readonly fields?: Fields;
  readonly want: Fields;
}

function kindOf(name: string): Kind {
  const kind = STORE_ONLY_KINDS.find((one) => one.kind === name);
  if (kind === undefined) {
    throw new Error(`no kind ${name}`);
  }
  return kind;
}

const KEPT: readonly Row[] = [
  {
    kind: "Deployment",
    fields: {
      spec: { replicas: 3, template, selector: { matchLabels: { a: "b" } } },
      status: { readyReplicas: 2, updatedReplicas: 1 },
    },
    want: { Ready: "2/3", "Up-to-date": 1, Available: 0, ...TEMPLATE, Selector: "a=b" },
  },
  { kind: "Deployment", want: { Ready: "0/1", Selector: "<none>", Images: null } },
  {
    kind: "ReplicaSet",
    fields: { spec: { replicas: 3, template }, status: { replicas: 2, readyReplicas: 1 } },
    want: { Desired: 3, Current: 2, Ready: 1, ...TEMPLATE, Selector: "<none>" },
  },
  {
    kind: "ReplicationController",
    fields: { spec: { template } },
    want: { Desired: 0, Current: 0, Ready: 0, ...TEMPLATE },
  },
  {
    kind: "DaemonSet",
    fields: { status: { desiredNumberScheduled: 2, numberReady: 1 } },
    want: { Desired: 2, Current: 0, Ready: 1, "Up-to-date": 0, Available: 0 },
  },
  {
    kind: "ControllerRevision",
    fields: {
      metadata: {
        ownerReferences: [
          { name: "other", controller: false },
          { name: "owner", controller: true },
        ],
      },
      revision: 4,
    },
    want: { Controller: "owner", Revision: 4 },
  },
  {
    kind: "Job",
    fields: { spec: { completions: 2 }, status: { succeeded: 1, startTime: CREATED } },
    want: { Completions: "1/2", Duration: "60s" },
  },
  {
    kind: "CronJob",
    fields: { spec: { schedule: "* * * * *", suspend: false } },
    want: { Schedule: "* * * * *", Suspend: false, Timezone: null, "Last Schedule": null },
  },
  {
    kind: "Ingress",
    fields: {
      spec: { ingressClassName: "c", rules: [{ host: "a" }, { host: "b" }] },
      status: { loadBalancer: { ingress: [{ ip: "1.1.1.1" }] } },
    },
    want: { Class: "c", Hosts: "a,b", Address: "1.1.1.1" },
  },
  {
    kind: "NetworkPolicy",
    fields: { spec: { podSelector: { matchLabels: { a: "b" } } } },
    want: { "Pod-Selector": "a=b" },
  },
  { kind: "ResourceClaim", want: { State: "pending" } },
  {
    kind: "ResourceClaim",
    fields: { status: { allocation: {} } },
    want: { State: "allocated" },
  },
  {
    kind: "ResourceClaim",
    fields: { status: { allocation: {}, reservedFor: [{ resource: "pods" }] } },
    want: { State: "allocated,reserved" },
  },
  { kind: "ResourceClaimTemplate", want: { Name: "o" } },
  { kind: "DeviceClass", want: { Name: "o" } },
  {
    kind: "ResourceSlice",
    fields: { spec: { driver: "nics.example.com", nodeName: "a", pool: { name: "p" } } },
    want: { Node: "a", Driver: "nics.example.com", Pool: "p" },
  },
  {
    kind: "PriorityClass",
    fields: { value: 5, globalDefault: false },
    want: { Value: 5, "Global-Default": false },
  },
];

test.each(KEPT)("row %# of a $kind shows $want", ({ kind, fields = {}, want }) => {
  expect(cellsOf(kindOf(kind), fields, NOW_MS)).toMatchObject(want);
});

const podSpec = { containers: [{ name: "c", image: "i:1" }] };

test.each<{ kind: string; given?: Fields; want: Fields }>([
  { kind: "ReplicaSet", want: { spec: { replicas: 1 } } },
  { kind: "Deployment", want: { spec: { replicas: 1, strategy: { type: "RollingUpdate" } } } },
  {
    kind: "Deployment",
    given: { spec: { replicas: 0, strategy: { type: "Recreate" } } },
    want: { spec: { replicas: 0, strategy: { type: "Recreate" } } },
  },
  {
    kind: "Deployment",
    given: { spec: { strategy: "x" } },
    want: { spec: { replicas: 1, strategy: "x" } },
  },
])("stores a $kind with $given as $want", ({ kind, given = {}, want }) => {
  expect(withDefaults(kindOf(kind), given)).toEqual(objectOf(kindOf(kind), want));
});

test("does not share defaults between objects", () => {
  const [one, other] = [0, 1].map(() => withDefaults(kindOf("Deployment"), {}));
  expect(one?.["spec"]).not.toBe(other?.["spec"]);
});

test.each([
  { kind: "Job", path: ["template"] },
  { kind: "CronJob", path: ["jobTemplate", "spec", "template"] },
])("the template of a $kind is defaulted and validated like a pod", ({ kind, path }) => {
  const within = (spec: unknown) =>
    path.reduceRight<unknown>((inner, key) => ({ [key]: inner }), { spec });
  const complete = withDefaults(kindOf(kind), { spec: within(podSpec) });
  expect(complete["spec"]).toMatchObject(within({ restartPolicy: "Always" }) as Fields);
  expect(refusals(kindOf(kind), { spec: within(podSpec) })).toEqual([]);
  expect(refusals(kindOf(kind), { spec: within({ containers: [] }) })).toEqual([
    `spec.${path.join(".")}.spec.containers: Required value`,
  ]);
});

test("pods of a StatefulSet can mount the volumes of its claim templates", () => {
  const container = { ...podSpec.containers[0], volumeMounts: [{ name: "d", mountPath: "/d" }] };
  const spec = { template: { spec: { containers: [container] } } };
  const volumeClaimTemplates = [{ metadata: { name: "d" } }];
  const set = kindOf("StatefulSet");
  expect(refusals(set, { spec: { ...spec, volumeClaimTemplates } })).toEqual([]);
  expect(refusals(set, { spec })).toEqual([
    'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "d"',
  ]);
});

test.each([
  { selector: { matchLabels: { a: "b" } }, want: "a=b" },
  { selector: { matchExpressions: [{ key: "a", operator: "Exists" }] }, want: "a" },
  { selector: { a: "b", c: "d" }, want: "a=b,c=d" },
  { selector: undefined, want: "" },
])("the scale subresource reads the selector $selector as $want", ({ selector, want }) => {
  const { scale } = kindOf("ReplicationController");
  expect(scale?.selector(objectOf(kindOf("ReplicationController"), { spec: { selector } }))).toBe(
    want,
  );
});

test("kinds with replicas have a scale subresource", () => {
  const scaled = STORE_ONLY_KINDS.filter(({ scale }) => scale !== undefined);
  expect(scaled.map(({ kind }) => kind)).toEqual([
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "ReplicationController",
  ]);
  expect(scaled.map(({ subresources }) => subresources.map(({ name }) => name))).toEqual(
    scaled.map(() => ["scale", "status"]),
  );
});

test("warns about a store-only kind unless other components use it", () => {
  const quiet = STORE_ONLY_KINDS.filter(({ strategy }) => strategy.warnings === undefined);
  expect(quiet.map(({ kind }) => kind)).toEqual([
    "ControllerRevision",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "DeviceClass",
    "ResourceSlice",
    "PriorityClass",
  ]);
  const ingress = kindOf("Ingress");
  expect(ingress.strategy.warnings?.(objectOf(ingress))).toEqual([
    expect.stringContaining("no controller on this machine handles a Ingress"),
  ]);
});
