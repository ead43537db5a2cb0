// SPDX-License-Identifier: Apache-2.0
// Resource claims of pods until drivers have allocated them, on a store that rejects nothing.
import { PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, type ResourceType } from "@patchbay/api";
import type {
  KubeObject,
  Pod,
  ResourceClaim,
  ResourceClaimTemplate,
} from "@patchbay/api/kubernetes";
import type { ObjectKey } from "@patchbay/core/interfaces";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, expect, test } from "vitest";
import { aPod } from "../testing/pods.ts";
import { prepareDeviceClaims } from "./device-claims.ts";

const UID = "0123456789abcdef";
const NAME = "vm1-nics-01234567";
const KEY = { namespace: "ns", name: NAME };
const DEVICES = { devices: { requests: [{ name: "nic", exactly: { deviceClassName: "nics" } }] } };
const RESERVATION = { resource: "pods", name: "vm1", uid: UID };

/** Watches of objects in a store. */
class FakeWatches<T extends KubeObject> {
  readonly #type: ResourceType<T>;
  readonly #found = new Map<string, T>();
  used: readonly string[] = [];
  isSynced = true;

  constructor(type: ResourceType<T>) {
    this.#type = type;
  }

  setUsed(_user: string, keys: readonly ObjectKey[]): void {
    this.used = keys.map(({ name }) => name);
  }

  list(): readonly T[] | undefined {
    return this.isSynced ? this.used.flatMap((name) => this.#found.get(name) ?? []) : undefined;
  }

  async catchUp(): Promise<void> {
    const { items } = await store.list(this.#type);
    for (const item of items) this.#found.set(item.metadata.name, item);
  }
}

let store: FakeStore;
let claims: FakeWatches<ResourceClaim>;
let templates: FakeWatches<ResourceClaimTemplate>;

beforeEach(() => {
  store = createFakeStore();
  claims = new FakeWatches(RESOURCE_CLAIMS);
  templates = new FakeWatches(RESOURCE_CLAIM_TEMPLATES);
});

async function given(resourceClaims: Pod["spec"]["resourceClaims"]): Promise<void> {
  const pod = aPod({ ...(resourceClaims && { resourceClaims }) }, { name: "vm1", uid: UID });
  await store.create(PODS, pod);
}

async function podNow(): Promise<Pod> {
  const pod = await store.find(PODS, { namespace: "ns", name: "vm1" });
  if (pod === undefined) throw new Error("no pod");
  return pod;
}

async function pass(living: readonly string[] = []) {
  await claims.catchUp();
  await templates.catchUp();
  const hasPod = (uid: string): boolean => living.includes(uid);
  return prepareDeviceClaims({ store, claims, templates, hasPod }, await podNow());
}

function putTemplate(): void {
  store.put(RESOURCE_CLAIM_TEMPLATES, {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaimTemplate",
    metadata: { namespace: "ns", name: "nic" },
    spec: { metadata: { labels: { app: "vm" } }, spec: DEVICES },
  });
}

function putClaim(name: string, status: ResourceClaim["status"]): void {
  const metadata = { namespace: "ns", name };
  const claim = { apiVersion: "resource.k8s.io/v1", kind: "ResourceClaim", metadata, spec: {} };
  store.put(RESOURCE_CLAIMS, { ...claim, ...(status && { status }) });
}

const TEMPLATED = [{ name: "nics", resourceClaimTemplateName: "nic" }];

test("a pod without claims is ready", async () => {
  await given(undefined);
  expect(await pass()).toEqual({ kind: "ready" });
});

test("a claim is created from its template, and its name is in the pod's status", async () => {
  putTemplate();
  await given(TEMPLATED);
  expect(await pass()).toEqual({ kind: "waiting" });
  expect(await store.find(RESOURCE_CLAIMS, KEY)).toMatchObject({
    metadata: {
      labels: { app: "vm" },
      annotations: { "resource.kubernetes.io/pod-claim-name": "nics" },
      ownerReferences: [{ kind: "Pod", name: "vm1", uid: UID, controller: true }],
    },
    spec: DEVICES,
  });
  expect((await podNow()).status?.resourceClaimStatuses).toEqual([
    { name: "nics", resourceClaimName: NAME },
  ]);
});

test("a claim that was created before a crash is used", async () => {
  putTemplate();
  await given(TEMPLATED);
  putClaim(NAME, undefined);
  expect(await pass()).toEqual({ kind: "waiting" });
  expect((await podNow()).status?.resourceClaimStatuses).toHaveLength(1);
});

test("a pod waits for a missing template, a missing claim and a driver", async () => {
  await given([...TEMPLATED, { name: "shared", resourceClaimName: "existing" }]);
  expect(await pass()).toMatchObject({ problem: 'resourceclaimtemplate "nic" not found' });
  putTemplate();
  await pass();
  expect(await pass()).toMatchObject({ problem: 'resourceclaim "existing" not found' });
  putClaim("existing", { allocation: {} });
  const problem = `no driver has allocated resourceclaim "${NAME}" yet`;
  expect(await pass()).toEqual({ kind: "waiting", problem });
  const { reservedFor } =
    (await store.find(RESOURCE_CLAIMS, { ...KEY, name: "existing" }))?.status ?? {};
  expect(reservedFor).toBeUndefined();
});

test("a pod waits without a problem until its watches are synchronized", async () => {
  putTemplate();
  putClaim(NAME, { allocation: {} });
  await given(TEMPLATED);
  templates.isSynced = false;
  expect(await pass()).toEqual({ kind: "waiting" });
  expect(templates.used).toEqual(["nic"]);
  expect((await podNow()).status?.resourceClaimStatuses).toBeUndefined();
  templates.isSynced = true;
  await pass();
  claims.isSynced = false;
  expect(await pass()).toEqual({ kind: "waiting" });
  expect([templates.used, claims.used]).toEqual([[], [NAME]]);
  claims.isSynced = true;
  expect(await pass()).toEqual({ kind: "ready" });
});

test("an allocated claim is reserved once, beside pods that still exist", async () => {
  await given([{ name: "shared", resourceClaimName: "existing" }]);
  const other = { resource: "pods", name: "other", uid: "other" };
  const gone = { resource: "pods", name: "vm1", uid: "gone" };
  const workload = { apiGroup: "example.com", resource: "jobs", name: "job", uid: "job" };
  putClaim("existing", { allocation: {}, reservedFor: [gone, other, workload] });
  const key = { ...KEY, name: "existing" };
  expect(await pass(["other"])).toEqual({ kind: "ready" });
  const reserved = await store.find(RESOURCE_CLAIMS, key);
  expect(reserved?.status?.reservedFor).toEqual([other, workload, RESERVATION]);
  expect(await pass(["other"])).toEqual({ kind: "ready" });
  expect((await store.find(RESOURCE_CLAIMS, key))?.metadata.resourceVersion).toBe(
    reserved?.metadata.resourceVersion,
  );
});
