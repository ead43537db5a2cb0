// SPDX-License-Identifier: Apache-2.0
import { NAMESPACES } from "@patchbay/api";
import type { KubeNode } from "@patchbay/api/kubernetes";
import { createFakeStore } from "@patchbay/kube/testing";
import { expect, test } from "vitest";
import {
  addTenant,
  buildTenantObjects,
  createTenant,
  findHardProblem,
} from "./create-namespace.ts";

const { signal } = new AbortController();

async function hardOf(flags: readonly string[]): Promise<unknown> {
  const [quota] = (await buildTenantObjects("t1", flags)).contents;
  return quota?.[1];
}

test("limits everything that tenants share, and forbids affinity to other namespaces", async () => {
  const { contents } = await buildTenantObjects("t1", []);
  expect(contents.map(([, object]) => object)).toMatchObject([
    {
      kind: "ResourceQuota",
      metadata: { name: "tenant", namespace: "t1" },
      spec: {
        hard: {
          pods: "60",
          "count/virtualmachines.kubevirt.io": "30",
          "requests.memory": "32Gi",
          "requests.devices.kubevirt.io/tun": "60",
          "requests.storage": "200Gi",
          "patchbay.io/stored-bytes": "16Mi",
        },
      },
    },
    {
      kind: "ResourceQuota",
      spec: {
        hard: { pods: "0" },
        scopeSelector: {
          matchExpressions: [{ scopeName: "CrossNamespacePodAffinity", operator: "Exists" }],
        },
      },
    },
    { kind: "LimitRange", spec: { limits: [{ type: "Container", min: { memory: "8Mi" } }] } },
  ]);
});

function aNode(name: string, allocatable: Readonly<Record<string, string>>): KubeNode {
  return { apiVersion: "v1", kind: "Node", metadata: { name }, status: { allocatable } };
}

test("leaves a part of the nodes to other tenants", async () => {
  const amounts = { pods: "30", cpu: "3", memory: "8Gi", "ephemeral-storage": "100Gi" };
  const nodes = [aNode("a", amounts), aNode("b", amounts), aNode("c", {})];
  const [quota] = (await buildTenantObjects("t1", ["pods=50"], nodes)).contents;
  expect(quota?.[1]).toMatchObject({
    spec: {
      hard: {
        pods: "50",
        "requests.cpu": "3000m",
        "requests.memory": "8192Mi",
        "requests.ephemeral-storage": "50Gi",
        "requests.storage": "51200Mi",
        "requests.devices.kubevirt.io/tun": "60",
      },
    },
  });
});

test("--hard changes, adds and removes limits", async () => {
  const quota = await hardOf(["pods=5", "count/jobs.batch=1", "services="]);
  expect(quota).toMatchObject({ spec: { hard: { pods: "5", "count/jobs.batch": "1" } } });
  expect(quota).not.toHaveProperty("spec.hard.services");
});

test.each(["pods", "=3", "pods=1=2"])("rejects --hard %s", (flag) => {
  expect(findHardProblem(["pods=1", flag])).toContain(`${flag} is not RESOURCE=QUANTITY`);
});

test.each(["pods=1", "requests.cpu=500m", "services="])("accepts --hard %s", (flag) => {
  expect(findHardProblem([flag])).toBeUndefined();
});

test("creates the namespace with its contents", async () => {
  const store = createFakeStore();
  const objects = await buildTenantObjects("t1", []);
  await createTenant(store, objects, signal);
  for (const [type, { metadata }] of objects.contents) {
    const key = { namespace: "t1", name: metadata.name };
    expect(await store.find(type, key)).toMatchObject({ metadata: key });
  }
  const labels = { "patchbay.io/tenant": "" };
  expect(await store.find(NAMESPACES, { name: "t1" })).toMatchObject({ metadata: { labels } });
});

test("adds the label and the contents to a namespace that exists", async () => {
  const store = createFakeStore();
  const metadata = { name: "t1", labels: { team: "a" } };
  store.put(NAMESPACES, { apiVersion: "v1", kind: "Namespace", metadata });
  const objects = await buildTenantObjects("t1", []);
  await addTenant(store, objects, signal);
  expect((await store.find(NAMESPACES, { name: "t1" }))?.metadata.labels).toEqual({
    team: "a",
    "patchbay.io/tenant": "",
  });
  for (const [type, { metadata: content }] of objects.contents)
    expect(await store.find(type, { namespace: "t1", name: content.name })).toBeDefined();
});

test("leaves no namespace without limits if the quota cannot be created", async () => {
  const store = createFakeStore();
  const objects = await buildTenantObjects("t1", []);
  for (const [type, object] of objects.contents) await store.create(type, object);
  await expect(createTenant(store, objects, signal)).rejects.toMatchObject({
    code: "KUBE_ALREADY_EXISTS",
  });
  expect(await store.find(NAMESPACES, { name: "t1" })).toBeUndefined();
});
