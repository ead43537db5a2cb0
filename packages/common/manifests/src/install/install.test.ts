// SPDX-License-Identifier: Apache-2.0
import type { JsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";
import { createFakeStore } from "@patchbay/kube/testing";
import { expect, test } from "vitest";
import { findType } from "../types.ts";
import { install, specDifferences, type ObjectResult } from "./install.ts";

const aSpec = (container: JsonObject, pod: JsonObject = {}): JsonObject => ({
  template: { spec: { containers: [{ name: "a", ...container }], ...pod } },
});

test.each<{ name: string; before: JsonObject; after: JsonObject; want: readonly string[] }>([
  { name: "nothing", before: aSpec({ image: "x" }), after: aSpec({ image: "x" }), want: [] },
  {
    name: "an argument",
    before: aSpec({ args: ["--a=1", "--b"] }),
    after: aSpec({ args: ["--a=2", "--b"] }),
    want: ["- a: --a=1", "+ a: --a=2"],
  },
  {
    name: "an image and a limit",
    before: aSpec({ image: "x:1", resources: { limits: { memory: "1Gi" } } }),
    after: aSpec({ image: "x:2", resources: {} }),
    want: ["- a: image: x:1", "- a: resources.limits.memory: 1Gi", "+ a: image: x:2"],
  },
  {
    name: "list entries",
    before: aSpec({ env: [{ name: "A", value: "1" }] }, { tolerations: [{ operator: "Exists" }] }),
    after: aSpec({ volumeMounts: [{ name: "v", mountPath: "/v" }] }, { hostNetwork: true }),
    want: [
      '- a: env[A]: {"name":"A","value":"1"}',
      '- tolerations: {"operator":"Exists"}',
      '+ a: volumeMounts[/v]: {"name":"v","mountPath":"/v"}',
      "+ hostNetwork: true",
    ],
  },
  {
    name: "a number outside the pod",
    before: { replicas: 1 },
    after: { replicas: 2 },
    want: ["- replicas: 1", "+ replicas: 2"],
  },
  {
    name: "a kind's schema and a webhook",
    before: {
      spec: { versions: [{ name: "v1", schema: { properties: { a: { type: "string" } } } }] },
      webhooks: [{ name: "w", rules: [{ resources: ["a"] }] }],
    },
    after: {
      spec: { versions: [{ name: "v1", schema: { properties: { a: { type: "integer" } } } }] },
      webhooks: [{ name: "w", rules: [{ resources: ["b"] }] }],
    },
    want: [
      "- spec.versions[v1].schema.properties.a.type: string",
      '- webhooks[w].rules: {"resources":["a"]}',
      "+ spec.versions[v1].schema.properties.a.type: integer",
      '+ webhooks[w].rules: {"resources":["b"]}',
    ],
  },
])("$name", ({ before, after, want }) => {
  expect(specDifferences(before, after)).toEqual(want);
});

const ROLE: KubeObject & { readonly rules: readonly object[] } = {
  apiVersion: "rbac.authorization.k8s.io/v1",
  kind: "ClusterRole",
  metadata: { name: "reader", labels: { "app.kubernetes.io/part-of": "patchbay" } },
  rules: [{ apiGroups: [""], resources: ["pods"], verbs: ["get"] }],
};
const SECRET = {
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name: "keys", labels: { "app.kubernetes.io/part-of": "patchbay" } },
};

test("a dry run names the changed fields of any kind, but no content of a Secret", async () => {
  const store = createFakeStore();
  const [rule] = ROLE.rules;
  const stored = { ...ROLE, rules: [{ ...rule, verbs: ["list"] }] };
  store.put(findType(ROLE), stored);
  store.put(findType(SECRET), { ...SECRET, data: { key: "old" } } as KubeObject);
  const outcomes: ObjectResult[] = [];
  const secret = { ...SECRET, data: { key: "new" } } as KubeObject;
  await install(store, {
    objects: [ROLE, secret],
    dryRun: true,
    report: (outcome) => outcomes.push(outcome),
  });
  const rules = (verb: string): string =>
    `rules: {"apiGroups":[""],"resources":["pods"],"verbs":["${verb}"]}`;
  expect(outcomes).toEqual([
    {
      name: "ClusterRole reader",
      change: "changed",
      isChecked: true,
      differences: [`- ${rules("list")}`, `+ ${rules("get")}`],
    },
    { name: "Secret keys", change: "changed", isChecked: true },
  ]);
});

test("a dry run reports every object that the server refuses", async () => {
  const store = createFakeStore();
  const refuse = (): Promise<never> =>
    Promise.reject(new AppError("KUBE_REFUSED", { status: 422 }));
  const refusals: string[] = [];
  const objects = [ROLE, SECRET];
  const refusing: Store = {
    find: (type, key) => store.find(type, key),
    list: (type, options) => store.list(type, options),
    create: refuse,
    update: refuse,
    patch: refuse,
    delete: refuse,
  };
  const outcomes: ObjectResult[] = [];
  await install(refusing, {
    objects,
    dryRun: true,
    report: (outcome) => outcomes.push(outcome),
    reportRefusal: (name) => refusals.push(name),
  });
  expect(refusals).toEqual(["ClusterRole reader", "Secret keys"]);
  expect(outcomes).toEqual([]);
});
