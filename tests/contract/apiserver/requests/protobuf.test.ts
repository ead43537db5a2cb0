// SPDX-License-Identifier: Apache-2.0
// Bodies in protobuf, which client-go sends since 1.33: a status is stored, or the answer is 415 and nothing changes.
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  encodeBytes,
  encodeProtobuf,
} from "../../../../packages/standalone/apiserver/src/testing/protobuf.ts";
import { type Harness, startHarness } from "../harness.ts";

const PROTOBUF = "application/vnd.kubernetes.protobuf";
const NS = "/api/v1/namespaces";
const CONTAINERS = [{ name: "c", image: "i" }];

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(async () => {
  await api.close();
});

const POD_TEMPLATE = {
  metadata: { labels: { a: "b" } },
  spec: { containers: CONTAINERS, restartPolicy: "Always" },
};
const SELECTOR = { matchLabels: { a: "b" } };
const STORAGE = { resources: { requests: { storage: "1Gi" } }, accessModes: ["ReadWriteOnce"] };

interface StatusCase {
  readonly kind: string;
  readonly apiVersion?: string;
  readonly collection: string;
  readonly spec: object;
  readonly status: object;
  /** Status that the body contains, if its kind has no table of it. */
  readonly encodedStatus?: Buffer;
}

const COUNT = encodeBytes(3, Buffer.from([0x10, 0]));
const STORED: readonly StatusCase[] = [
  {
    kind: "Namespace",
    collection: NS,
    spec: { finalizers: ["kubernetes"] },
    status: { phase: "Active", conditions: [{ type: "Fit", status: "True", reason: "R" }] },
  },
  {
    kind: "Service",
    collection: `${NS}/default/services`,
    spec: { ports: [{ port: 80 }], type: "LoadBalancer" },
    status: { loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } },
  },
];
const REJECTED: readonly StatusCase[] = [
  {
    kind: "Pod",
    collection: `${NS}/default/pods`,
    spec: { containers: CONTAINERS },
    status: { phase: "Running" },
  },
  { kind: "Node", collection: "/api/v1/nodes", spec: {}, status: { capacity: { cpu: "2" } } },
  {
    kind: "PersistentVolumeClaim",
    collection: `${NS}/default/persistentvolumeclaims`,
    spec: STORAGE,
    status: { phase: "Bound" },
  },
  {
    kind: "ResourceQuota",
    collection: `${NS}/default/resourcequotas`,
    spec: { hard: { pods: "3" } },
    status: { hard: { pods: "3" } },
  },
  {
    kind: "Deployment",
    apiVersion: "apps/v1",
    collection: "/apis/apps/v1/namespaces/default/deployments",
    spec: { selector: SELECTOR, template: POD_TEMPLATE },
    status: { replicas: 0, conditions: [{ type: "Available", status: "True" }] },
    encodedStatus: COUNT,
  },
  {
    kind: "Job",
    apiVersion: "batch/v1",
    collection: "/apis/batch/v1/namespaces/default/jobs",
    spec: { template: { spec: { containers: CONTAINERS, restartPolicy: "Never" } } },
    status: { ready: 0, active: 1 },
    encodedStatus: COUNT,
  },
  {
    kind: "PodDisruptionBudget",
    apiVersion: "policy/v1",
    collection: "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    spec: { minAvailable: 1, selector: SELECTOR },
    status: { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 1, expectedPods: 0 },
    encodedStatus: COUNT,
  },
];

async function create({ kind, apiVersion = "v1", collection, spec, status }: StatusCase) {
  const path = `${collection}/typed`;
  const head = { apiVersion, kind, metadata: { name: "typed" } };
  const existing = await api.ask("GET", path);
  if (existing.code === 404) await api.post(collection, { ...head, spec });
  const { body: object } = await api.get(path);
  return { path, object: { ...object, apiVersion, kind, status } };
}

async function putStatus(path: string, body: Buffer): Promise<number> {
  const { code } = await api.ask("PUT", `${path}/status`, { body, type: PROTOBUF });
  return code;
}

test.each(STORED)("stores the status of a $kind", async (each) => {
  const { path, object } = await create(each);
  expect(await putStatus(path, encodeProtobuf(object))).toBe(200);
  const { body } = await api.get(path);
  expect(body.status).toMatchObject(each.status);
  expect(body.spec).toEqual(object.spec);
});

test.each(REJECTED)("answers 415 for the status of a $kind, which stays", async (each) => {
  const { path, object } = await create(each);
  await api.put(`${path}/status`, object);
  const before = await api.get(path);
  expect(before.body.status).toMatchObject(each.status);
  expect(await putStatus(path, encodeProtobuf(object, each.encodedStatus))).toBe(415);
  expect((await api.get(path)).body).toEqual(before.body);
});
