// SPDX-License-Identifier: Apache-2.0
// Claims, volumes and storage classes: the control plane's part.
import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "@patchbay/support";
import { type Harness, startHarness } from "../harness.ts";

const CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES = "/api/v1/persistentvolumes";
const CLASSES = "/apis/storage.k8s.io/v1/storageclasses";
const PODS = "/api/v1/namespaces/default/pods";
const DEFAULT = { "storageclass.kubernetes.io/is-default-class": "true" };

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(async () => {
  await api.close();
});

function claim(name: string, spec: Readonly<Record<string, unknown>> = {}) {
  const resources = { requests: { storage: "1Gi" } };
  return { metadata: { name }, spec: { accessModes: ["ReadWriteOnce"], resources, ...spec } };
}

function volume(name: string) {
  const csi = { driver: "example.com", volumeHandle: name };
  const capacity = { storage: "1Gi" };
  return { metadata: { name }, spec: { accessModes: ["ReadWriteOnce"], capacity, csi } };
}

async function isGone(path: string): Promise<boolean> {
  return eventually(async () => (await api.get(path)).code === 404, { withinMs: 5000 });
}

test("a claim gets the default class unless it names one; the newer of two defaults applies", async () => {
  expect((await api.post(CLAIMS, claim("early"))).body.spec).not.toHaveProperty("storageClassName");
  const local = { provisioner: "example.com/local" };
  const made = await api.post(CLASSES, {
    ...local,
    metadata: { name: "local", annotations: DEFAULT },
  });
  expect(made.body).toMatchObject({ reclaimPolicy: "Delete", volumeBindingMode: "Immediate" });
  await api.post(CLASSES, { ...local, metadata: { name: "other" } });
  expect((await api.post(CLAIMS, claim("plain"))).body.spec).toMatchObject({
    storageClassName: "local",
    volumeMode: "Filesystem",
  });
  for (const storageClassName of ["", "other"]) {
    const named = claim(`named-${storageClassName}x`, { storageClassName });
    expect((await api.post(CLAIMS, named)).body.spec).toMatchObject({ storageClassName });
  }
});

test("a class is marked as default in its table", async () => {
  const accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
  const table = { metadata: { name: "a-default", annotations: DEFAULT }, provisioner: "p" };
  await api.post(CLASSES, table);
  const { text } = await api.get(`${CLASSES}/a-default`, accept);
  expect(text).toContain('"a-default (default)","p","Delete","Immediate",false');
  await api.delete(`${CLASSES}/a-default`);
});

test("the fields of a class are immutable", async () => {
  await api.post(CLASSES, { metadata: { name: "fixed" }, provisioner: "p" });
  const change = {
    provisioner: "q",
    reclaimPolicy: "Retain",
    parameters: { a: "b" },
    volumeBindingMode: "WaitForFirstConsumer",
  };
  const { code, body } = await api.patch(`${CLASSES}/fixed`, change);
  expect(code).toBe(422);
  expect(body.details.causes.map(({ field }) => field)).toEqual([
    "parameters",
    "provisioner",
    "reclaimPolicy",
    "volumeBindingMode",
  ]);
  expect((await api.patch(`${CLASSES}/fixed`, { allowVolumeExpansion: true })).code).toBe(200);
});

test("a claim may be bound once, and neither its size nor its class changes", async () => {
  await api.post(CLAIMS, claim("bound"));
  const at = `${CLAIMS}/bound`;
  expect((await api.patch(at, { spec: { volumeName: "a" } })).code).toBe(200);
  const grown = await api.patch(at, { spec: { resources: { requests: { storage: "2Gi" } } } });
  expect(grown.body.message).toContain(
    "the storageclass that provisions the pvc must support resize",
  );
  for (const spec of [
    { volumeName: "b" },
    { storageClassName: "other" },
    { volumeMode: "Block" },
  ]) {
    expect((await api.patch(at, { spec })).body.message).toContain("spec is immutable");
  }
});

test("a claim stays until no pod on a node uses it", async () => {
  const volumes = [{ name: "v", persistentVolumeClaim: { claimName: "used" } }];
  const pod = (name: string, spec: object) => ({
    metadata: { name },
    spec: { containers: [{ name: "c", image: "i" }], volumes, ...spec },
  });
  await api.post(CLAIMS, claim("used"));
  await api.post(PODS, pod("waits", {}));
  await api.post(PODS, pod("runs", { nodeName: "n" }));
  await api.delete(`${CLAIMS}/used`);
  const retained = (await api.get(`${CLAIMS}/used`)).body.metadata;
  expect(retained.deletionTimestamp).toBeDefined();
  expect(retained.finalizers).toEqual(["kubernetes.io/pvc-protection"]);
  await api.delete(`${PODS}/runs?gracePeriodSeconds=0`);
  expect(await isGone(`${CLAIMS}/used`)).toBe(true);
});

test("a volume stays while a claim is bound to it", async () => {
  await api.post(VOLUMES, volume("kept"));
  const bound = { status: { phase: "Bound" } };
  expect((await api.patch(`${VOLUMES}/kept/status`, bound)).code).toBe(200);
  await api.delete(`${VOLUMES}/kept`);
  expect((await api.get(`${VOLUMES}/kept`)).body.metadata.finalizers).toEqual([
    "kubernetes.io/pv-protection",
  ]);
  await api.patch(`${VOLUMES}/kept/status`, { status: { phase: "Released" } });
  expect(await isGone(`${VOLUMES}/kept`)).toBe(true);
});

test("a volume's source is immutable", async () => {
  await api.post(VOLUMES, volume("still"));
  const csi = { driver: "example.com", volumeHandle: "another" };
  const { body } = await api.patch(`${VOLUMES}/still`, { spec: { csi, volumeMode: "Block" } });
  expect(body.details.causes.map(({ field }) => field)).toEqual([
    "spec.persistentvolumesource",
    "spec.volumeMode",
  ]);
});
