// SPDX-License-Identifier: Apache-2.0
// Do kinds that nothing acts on here behave as objects the way they do in a cluster?
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Harness, startHarness } from "../harness.ts";

const SERVICES = "/api/v1/namespaces/default/services";
const POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
const APPS = "/apis/apps/v1/namespaces/default";
const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(async () => {
  await api.close();
});

function workload(name: string, change: Readonly<Record<string, unknown>> = {}) {
  const labels = { app: name };
  const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "i:1" }] } };
  return { metadata: { name }, spec: { selector: { matchLabels: labels }, template, ...change } };
}

async function columnsOf(path: string): Promise<readonly string[]> {
  const { text } = await api.get(path, TABLE);
  // Tables are read here only.
  const table = JSON.parse(text) as { columnDefinitions: { name: string; priority: number }[] };
  return table.columnDefinitions.map(({ name, priority }) => (priority === 0 ? name : `(${name})`));
}

async function causesOf(path: string, object: unknown): Promise<readonly string[]> {
  const { code, body } = await api.post(path, object);
  expect(code).toBe(422);
  return body.details.causes.map(
    ({ field, reason }) => `${field} ${reason.replace("FieldValue", "")}`,
  );
}

test.each([
  {
    resource: "deployments",
    want: {
      replicas: 1,
      revisionHistoryLimit: 10,
      progressDeadlineSeconds: 600,
      strategy: {
        type: "RollingUpdate",
        rollingUpdate: { maxUnavailable: "25%", maxSurge: "25%" },
      },
    },
  },
  {
    resource: "daemonsets",
    want: {
      revisionHistoryLimit: 10,
      updateStrategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 1, maxSurge: 0 } },
    },
  },
  { resource: "replicasets", want: { replicas: 1 } },
  {
    resource: "statefulsets",
    want: {
      replicas: 1,
      podManagementPolicy: "OrderedReady",
      updateStrategy: { type: "RollingUpdate", rollingUpdate: { partition: 0 } },
      persistentVolumeClaimRetentionPolicy: { whenDeleted: "Retain", whenScaled: "Retain" },
    },
  },
])("$resource have the usual defaults, and so have their templates", async ({ resource, want }) => {
  const { code, body } = await api.post(`${APPS}/${resource}`, workload("defaulted"));
  expect([code, body.metadata.generation]).toEqual([201, 1]);
  expect(body.spec).toMatchObject({
    ...want,
    template: {
      spec: {
        restartPolicy: "Always",
        dnsPolicy: "ClusterFirst",
        terminationGracePeriodSeconds: 30,
        containers: [{ imagePullPolicy: "IfNotPresent", terminationMessagePolicy: "File" }],
      },
    },
  });
});

test("a workload is refused with all causes", async () => {
  const path = `${APPS}/deployments`;
  expect(await causesOf(path, workload("a", { selector: undefined }))).toEqual([
    "spec.selector Required",
  ]);
  expect(await causesOf(path, workload("a", { selector: {} }))).toEqual(["spec.selector Invalid"]);
  expect(
    await causesOf(path, workload("a", { selector: { matchLabels: { app: "b" } }, replicas: -1 })),
  ).toEqual(["spec.replicas Invalid", "spec.template.metadata.labels Invalid"]);
  const spec = {
    restartPolicy: "Never",
    containers: [{ name: "C", volumeMounts: [{ name: "v", mountPath: "/v" }] }],
  };
  const template = { metadata: { labels: { app: "a" } }, spec };
  expect(await causesOf(path, workload("a", { template }))).toEqual([
    "spec.template.spec.containers[0].name Invalid",
    "spec.template.spec.containers[0].image Required",
    "spec.template.spec.containers[0].volumeMounts[0].name NotFound",
    "spec.template.spec.restartPolicy NotSupported",
  ]);
});

test("selector and claims of a workload are kept, the rest counts generations", async () => {
  await api.post(`${APPS}/deployments`, workload("kept"));
  const path = `${APPS}/deployments/kept`;
  const other = {
    spec: {
      selector: { matchLabels: { app: "x" } },
      template: { metadata: { labels: { app: "x" } } },
    },
  };
  const refused = await api.patch(path, other);
  expect([refused.code, refused.body.message]).toEqual([
    422,
    'Deployment.apps "kept" is invalid: spec.selector: Invalid value: {"matchLabels":{"app":"x"}}: field is immutable',
  ]);
  const strategic = "application/strategic-merge-patch+json";
  const image = { spec: { template: { spec: { containers: [{ name: "c", image: "i:2" }] } } } };
  expect((await api.patch(path, image, strategic)).body.metadata.generation).toBe(2);
  expect(
    (await api.patch(`${path}/status`, { status: { observedGeneration: 2 } })).body.metadata
      .generation,
  ).toBe(2);
  await api.post(`${APPS}/statefulsets`, workload("kept", { serviceName: "s" }));
  const moved = await api.patch(`${APPS}/statefulsets/kept`, { spec: { serviceName: "t" } });
  expect(moved.body.message).toContain("updates to statefulset spec for fields other than");
});

test("scale reads and writes the number of pods", async () => {
  await api.post(`${APPS}/statefulsets`, workload("scaled"));
  const path = `${APPS}/statefulsets/scaled`;
  const { body } = await api.get(`${path}/scale`);
  expect(body).toMatchObject({
    kind: "Scale",
    spec: { replicas: 1 },
    status: { selector: "app=scaled" },
  });
  expect((await api.put(`${path}/scale`, { ...body, spec: { replicas: 3 } })).code).toBe(200);
  expect((await api.patch(`${path}/scale`, { spec: { replicas: 4 } })).body.spec["replicas"]).toBe(
    4,
  );
  expect((await api.get(path)).body).toMatchObject({
    metadata: { generation: 3 },
    spec: { replicas: 4 },
  });
});

test("a job selects its pods by its own uid", async () => {
  const template = { spec: { restartPolicy: "Never", containers: [{ name: "c", image: "i" }] } };
  const jobs = "/apis/batch/v1/namespaces/default/jobs";
  const { body } = await api.post(jobs, { metadata: { name: "j" }, spec: { template } });
  expect(body.spec).toMatchObject({
    completions: 1,
    parallelism: 1,
    backoffLimit: 6,
    selector: { matchLabels: { "batch.kubernetes.io/controller-uid": body.metadata.uid } },
    template: { metadata: { labels: { "job-name": "j", "controller-uid": body.metadata.uid } } },
  });
  const always = { spec: { ...template.spec, restartPolicy: "Always" } };
  expect(await causesOf(jobs, { metadata: { name: "k" }, spec: { template: always } })).toEqual([
    "spec.template.spec.restartPolicy NotSupported",
  ]);
});

test.each(["portforward"])("pods/%s says that it is not there", async (name) => {
  const pods = "/api/v1/namespaces/default/pods";
  const spec = { containers: [{ name: "c", image: "i" }] };
  await api.post(pods, { metadata: { name: `for-${name}` }, spec });
  const { code, body } = await api.get(`${pods}/for-${name}/${name}`);
  expect([code, body.reason, body.message]).toEqual([
    501,
    "NotImplemented",
    `pods/${name} is not served here`,
  ]);
  expect((await api.get(`${pods}/absent/${name}`)).code).toBe(404);
  const { text } = await api.get("/api/v1");
  expect(text).toContain(`"pods/${name}"`);
});

test("an event is the same in both groups", async () => {
  const core = "/api/v1/namespaces/default/events";
  const later = "/apis/events.k8s.io/v1/namespaces/default/events";
  await using watch = await api.watch(`${later}?watch=1&resourceVersion=0`);
  await api.post(core, {
    metadata: { name: "old" },
    involvedObject: { kind: "Pod", namespace: "default", name: "p" },
    message: "m",
    reason: "Old",
    type: "Normal",
    count: 2,
    source: { component: "c" },
  });
  expect((await api.get(`${later}/old`)).body).toMatchObject({
    apiVersion: "events.k8s.io/v1",
    note: "m",
    regarding: { name: "p" },
    deprecatedCount: 2,
    deprecatedSource: { component: "c" },
  });
  const event = {
    metadata: { name: "new" },
    eventTime: "2024-01-01T00:00:00.000001Z",
    regarding: { kind: "Pod", namespace: "default", name: "q" },
    note: "n",
    reason: "New",
    action: "Acted",
    type: "Warning",
    reportingController: "c.io/c",
    reportingInstance: "c-1",
  };
  expect((await api.post(later, event)).code).toBe(201);
  expect((await api.get(`${core}/new`)).body).toMatchObject({
    apiVersion: "v1",
    message: "n",
    involvedObject: { name: "q" },
    reportingComponent: "c.io/c",
  });
  expect((await api.get(`${later}?fieldSelector=regarding.name=q`)).body.items).toHaveLength(1);
  expect((await watch.first(2)).map(({ object }) => object.apiVersion)).toEqual([
    "events.k8s.io/v1",
    "events.k8s.io/v1",
  ]);
  expect(
    await causesOf(later, { ...event, metadata: { name: "bad" }, eventTime: undefined }),
  ).toEqual(["eventTime Required"]);
});

test.each([
  {
    path: "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    given: { spec: { minAvailable: 1, maxUnavailable: "x" } },
    want: ["spec Invalid", "spec.maxUnavailable Invalid"],
  },
  {
    path: "/apis/scheduling.k8s.io/v1/priorityclasses",
    given: { value: 2_000_000_000, preemptionPolicy: "Maybe" },
    want: ["value Forbidden", "preemptionPolicy NotSupported"],
  },
  {
    path: "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    given: { addressType: "IPX", endpoints: [{}] },
    want: ["addressType NotSupported", "endpoints[0].addresses Required"],
  },
  {
    path: "/api/v1/namespaces/default/persistentvolumeclaims",
    given: { spec: {} },
    want: ["spec.accessModes Required", "spec.resources[storage] Required"],
  },
  {
    path: "/api/v1/namespaces/default/persistentvolumeclaims",
    given: {
      spec: {
        accessModes: ["ReadWriteOncePod", "Sometimes"],
        resources: { requests: { storage: "0" } },
        volumeMode: "Tape",
      },
    },
    want: [
      "spec.accessModes NotSupported",
      "spec.accessModes Forbidden",
      "spec.resources[storage] Invalid",
      "spec.volumeMode NotSupported",
    ],
  },
  {
    path: "/api/v1/persistentvolumes",
    given: { spec: { persistentVolumeReclaimPolicy: "Burn" } },
    want: [
      "spec.accessModes Required",
      "spec.capacity Required",
      "spec Required",
      "spec.persistentVolumeReclaimPolicy NotSupported",
    ],
  },
  {
    path: "/apis/storage.k8s.io/v1/storageclasses",
    given: { provisioner: "", reclaimPolicy: "Recycle", volumeBindingMode: "Later" },
    want: ["provisioner Required", "reclaimPolicy NotSupported", "volumeBindingMode NotSupported"],
  },
  {
    path: "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
    given: { spec: { podSelector: { matchExpressions: [{ key: "a", operator: "In" }] } } },
    want: ["spec.podSelector.matchExpressions[0].values Required"],
  },
])("$path refuses what cannot be", async ({ path, given, want }) => {
  expect(await causesOf(path, { metadata: { name: "bad" }, ...given })).toEqual(want);
});

test("defaults of the other kinds", async () => {
  const policy = { metadata: { name: "p" }, spec: { egress: [{ ports: [{ port: 1 }] }] } };
  const policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
  expect((await api.post(policies, policy)).body.spec).toEqual({
    podSelector: {},
    policyTypes: ["Ingress", "Egress"],
    egress: [{ ports: [{ port: 1, protocol: "TCP" }] }],
  });
  const range = {
    metadata: { name: "r" },
    spec: { limits: [{ type: "Container", max: { cpu: "2" } }] },
  };
  expect((await api.post("/api/v1/namespaces/default/limitranges", range)).body.spec).toEqual({
    limits: [
      { type: "Container", max: { cpu: "2" }, default: { cpu: "2" }, defaultRequest: { cpu: "2" } },
    ],
  });
  const priorities = "/apis/scheduling.k8s.io/v1/priorityclasses";
  await api.post(priorities, { metadata: { name: "high" }, value: 5 });
  expect((await api.patch(`${priorities}/high`, { value: 6 })).body.message).toContain(
    "may not be changed in an update.",
  );
});

test.each([
  [`${APPS}/deployments`, "Name Ready Up-to-date Available Age (Containers) (Images) (Selector)"],
  [
    `${APPS}/daemonsets`,
    "Name Desired Current Ready Up-to-date Available Node_Selector Age (Containers) (Images) (Selector)",
  ],
  [`${APPS}/replicasets`, "Name Desired Current Ready Age (Containers) (Images) (Selector)"],
  [`${APPS}/statefulsets`, "Name Ready Age (Containers) (Images)"],
  [`${APPS}/controllerrevisions`, "Name Controller Revision Age"],
  [
    "/apis/policy/v1/poddisruptionbudgets",
    "Name Min_Available Max_Unavailable Allowed_Disruptions Age",
  ],
  ["/apis/scheduling.k8s.io/v1/priorityclasses", "Name Value Global-Default Age"],
  ["/apis/networking.k8s.io/v1/networkpolicies", "Name Pod-Selector Age"],
  ["/apis/discovery.k8s.io/v1/endpointslices", "Name AddressType Ports Endpoints Age"],
  ["/apis/batch/v1/jobs", "Name Completions Duration Age (Containers) (Images) (Selector)"],
  ["/apis/networking.k8s.io/v1/ingresses", "Name Class Hosts Address Ports Age"],
  [
    "/api/v1/events",
    "Last_Seen Type Reason Object (Subobject) (Source) Message (First_Seen) (Count) (Name)",
  ],
  ["/api/v1/resourcequotas", "Name Age Request Limit"],
  [
    "/api/v1/persistentvolumeclaims",
    "Name Status Volume Capacity Access_Modes StorageClass Age (VolumeMode)",
  ],
  [
    "/api/v1/persistentvolumes",
    "Name Capacity Access_Modes Reclaim_Policy Status Claim StorageClass Reason Age (VolumeMode)",
  ],
  [
    "/apis/storage.k8s.io/v1/storageclasses",
    "Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age",
  ],
])("columns of %s", async (path, want) => {
  expect((await columnsOf(path)).map((name) => name.replaceAll(" ", "_")).join(" ")).toBe(want);
});

const SELECTED = { ports: [{ port: 1 }], selector: { app: "a" } };

test.each([
  {
    what: "a Service with a selector",
    path: SERVICES,
    spec: SELECTED,
    says: /a Service, it is only kept: from this machine a VM is reached/,
  },
  {
    what: "a Service of node ports",
    path: SERVICES,
    spec: { ports: [{ port: 1 }], type: "NodePort" },
    says: /a Service/,
  },
  {
    what: "a NetworkPolicy",
    path: POLICIES,
    spec: { podSelector: {} },
    says: /a NetworkPolicy, it is only kept: nothing is filtered/,
  },
])("$what is kept, and its author told that nobody acts on it", async ({ path, spec, says }) => {
  const { code, headers } = await api.post(path, { metadata: { generateName: "unserved-" }, spec });
  expect(code).toBe(201);
  expect(String(headers["warning"])).toMatch(says);
});

test("a Service whose endpoints are given serves the server itself, and warns of nothing", async () => {
  const { headers } = await api.post(SERVICES, {
    metadata: { name: "endpoints-given" },
    spec: { ports: [{ port: 1 }] },
  });
  expect(headers["warning"]).toBeUndefined();
});
