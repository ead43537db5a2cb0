// SPDX-License-Identifier: Apache-2.0
// Kinds without a controller: kubectl reads and writes, and validation.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Harness, startHarness } from "../harness.ts";

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
  { resource: "deployments", want: { replicas: 1, strategy: { type: "RollingUpdate" } } },
  { resource: "daemonsets", want: { updateStrategy: { type: "RollingUpdate" } } },
  { resource: "replicasets", want: { replicas: 1 } },
  { resource: "statefulsets", want: { replicas: 1 } },
])(
  "$resource have the defaults that kubectl relies on, their templates those of pods",
  async ({ resource, want }) => {
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
  },
);

test("rejects a template with all causes, like its pods", async () => {
  const spec = { containers: [{ name: "C", volumeMounts: [{ name: "v", mountPath: "/v" }] }] };
  const template = { metadata: { labels: { app: "a" } }, spec };
  const path = "spec.template.spec.containers[0]";
  expect(await causesOf(`${APPS}/deployments`, workload("a", { template }))).toEqual([
    `${path}.name Invalid`,
    `${path}.image Required`,
    `${path}.volumeMounts[0].name NotFound`,
  ]);
  const jobs = { schedule: "* * * * *", jobTemplate: { spec: { template: { spec } } } };
  const cronJobs = "/apis/batch/v1/namespaces/default/cronjobs";
  expect(await causesOf(cronJobs, { metadata: { name: "a" }, spec: jobs })).toContain(
    `spec.jobTemplate.${path}.image Required`,
  );
});

test("a workload's spec can be changed and increments the generation; its status does not", async () => {
  await api.post(`${APPS}/deployments`, workload("kept"));
  const path = `${APPS}/deployments/kept`;
  const strategic = "application/strategic-merge-patch+json";
  const image = { spec: { template: { spec: { containers: [{ name: "c", image: "i:2" }] } } } };
  expect((await api.patch(path, image, strategic)).body.metadata.generation).toBe(2);
  expect(
    (await api.patch(`${path}/status`, { status: { observedGeneration: 2 } })).body.metadata
      .generation,
  ).toBe(2);
});

test("scale reads and writes the number of replicas", async () => {
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

test.each(["portforward"])("pods/%s reports that it is not implemented", async (name) => {
  const pods = "/api/v1/namespaces/default/pods";
  const spec = { containers: [{ name: "c", image: "i" }] };
  await api.post(pods, { metadata: { name: `for-${name}` }, spec });
  const { code, body } = await api.get(`${pods}/for-${name}/${name}`);
  expect([code, body.reason, body.message]).toEqual([
    501,
    "NotImplemented",
    `pods/${name} is not supported`,
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
])("$path rejects invalid objects", async ({ path, given: input, want }) => {
  expect(await causesOf(path, { metadata: { name: "bad" }, ...input })).toEqual(want);
});

test.each([
  [`${APPS}/deployments`, "Name Ready Up-to-date Available Age (Containers) (Images) (Selector)"],
  [
    `${APPS}/daemonsets`,
    "Name Desired Current Ready Up-to-date Available Age (Containers) (Images) (Selector)",
  ],
  [`${APPS}/replicasets`, "Name Desired Current Ready Age (Containers) (Images) (Selector)"],
  [`${APPS}/statefulsets`, "Name Ready Age (Containers) (Images) (Selector)"],
  [`${APPS}/controllerrevisions`, "Name Controller Revision Age"],
  [
    "/apis/policy/v1/poddisruptionbudgets",
    "Name Min_Available Max_Unavailable Allowed_Disruptions Age",
  ],
  ["/apis/scheduling.k8s.io/v1/priorityclasses", "Name Value Global-Default Age"],
  ["/apis/networking.k8s.io/v1/networkpolicies", "Name Pod-Selector Age"],
  ["/apis/discovery.k8s.io/v1/endpointslices", "Name AddressType Ports Endpoints Age"],
  ["/apis/batch/v1/jobs", "Name Completions Duration Age (Containers) (Images) (Selector)"],
  ["/apis/networking.k8s.io/v1/ingresses", "Name Class Hosts Address Age"],
  [
    "/api/v1/events",
    "Last_Seen Type Reason Object (Subobject) (Source) Message (First_Seen) (Count) (Name)",
  ],
  ["/api/v1/resourcequotas", "Name Age Request Limit"],
  ["/apis/resource.k8s.io/v1/resourceclaims", "Name State Age"],
  ["/apis/resource.k8s.io/v1/resourceclaimtemplates", "Name Age"],
  ["/apis/resource.k8s.io/v1/deviceclasses", "Name Age"],
  ["/apis/resource.k8s.io/v1/resourceslices", "Name Node Driver Pool Age"],
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

test("a ResourceClaim's status has its own subresource, and shows the claim's state", async () => {
  const path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
  const exactly = { deviceClassName: "nic" };
  const spec = { devices: { requests: [{ name: "nic", exactly }] } };
  expect((await api.post(path, { metadata: { name: "claim" }, spec, status: {} })).code).toBe(201);
  const networkData = { interfaceName: "dra1", hardwareAddress: "02:00:00:00:00:01" };
  const device = { driver: "nics.example.com", pool: "node", device: "veth0" };
  const status = {
    allocation: { devices: { results: [{ request: "nic", ...device }] } },
    devices: [{ ...device, networkData: { ...networkData, ips: ["10.9.0.5/24"] } }],
    reservedFor: [{ resource: "pods", name: "pod", uid: "1" }],
  };
  expect((await api.patch(`${path}/claim`, { status })).body["status"]).toBeUndefined();
  const stateOf = async (): Promise<unknown> => {
    const { text } = await api.get(path, TABLE);
    return (JSON.parse(text) as { rows: { cells: unknown[] }[] }).rows[0]?.cells[1];
  };
  expect(await stateOf()).toBe("pending");
  expect((await api.patch(`${path}/claim/status`, { status })).body["status"]).toEqual(status);
  expect(await stateOf()).toBe("allocated,reserved");
});

test("rejects a ResourceClaim whose field has the wrong type", async () => {
  const { code, body } = await api.post(
    "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
    { metadata: { name: "bad" }, spec: { devices: { requests: "nic" } } },
  );
  expect([code, body.reason]).toEqual([400, "BadRequest"]);
});

test("stores a NetworkPolicy and warns that it restricts only VMs", async () => {
  const { code, headers } = await api.post(POLICIES, {
    metadata: { generateName: "unserved-" },
    spec: { podSelector: {} },
  });
  expect(code).toBe(201);
  expect(String(headers["warning"])).toMatch(/a NetworkPolicy restricts only the traffic of VMs/);
});
