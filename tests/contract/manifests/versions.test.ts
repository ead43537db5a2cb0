// SPDX-License-Identifier: Apache-2.0
// Clients of every API version see the same objects, stored as written.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type ResourceType,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { KubeClient } from "@patchbay/kube";
import { eventually } from "@patchbay/support";
import { startTestServer, type TestServer } from "@patchbay/support/api-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";

const VERSIONS = ["v1", "v1alpha3", "v1alpha2"] as const;
const KEY = { namespace: "default", name: "vmi-multus-multiple-net" };

let server: TestServer;
let admin: KubeClient;

beforeAll(async () => {
  server = await startTestServer();
  admin = await server.client("kubernetes-admin", ["system:masters"]);
});

afterAll(async () => {
  await server.close();
});

function of<T extends KubeObject>(type: ResourceType<T>, version: string): ResourceType<T> {
  return { ...type, version };
}

function readOldVmi(): VirtualMachineInstance {
  const path = join(import.meta.dirname, "kubevirt/multus-two-interfaces.yaml");
  const vmi = parse(readFileSync(path, "utf8")) as VirtualMachineInstance;
  return { ...vmi, metadata: { ...vmi.metadata, namespace: "default" } };
}

interface ApiGroup {
  readonly preferredVersion: { readonly version: string };
  readonly versions: readonly { readonly version: string }[];
}

test("discovery lists every version and prefers v1", async () => {
  const { text } = await admin.requestRaw({ method: "GET", path: "/apis/kubevirt.io" });
  const { preferredVersion, versions } = JSON.parse(text) as ApiGroup;
  expect(preferredVersion.version).toBe("v1");
  expect(versions.map(({ version }) => version)).toEqual(VERSIONS);
  for (const version of VERSIONS) {
    const path = `/apis/kubevirt.io/${version}`;
    const listed = (await admin.requestRaw({ method: "GET", path })).text;
    for (const { resource } of [VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES]) {
      expect(listed).toContain(`"${resource}"`);
      expect(listed).toContain(`"${resource}/status"`);
    }
  }
});

test("stores a v1alpha2 VMI as written and serves it in each version", async () => {
  const vmi = readOldVmi();
  expect(vmi.apiVersion).toBe("kubevirt.io/v1alpha2");
  const observed = new Map<string, VirtualMachineInstance>();
  const watches = VERSIONS.map((version) =>
    admin
      .reflect(of(VIRTUAL_MACHINE_INSTANCES, version), { namespace: "default" })
      .subscribe((event) => {
        if (event.kind === "applied") observed.set(version, event.object);
      }),
  );
  await admin.store.create(of(VIRTUAL_MACHINE_INSTANCES, "v1alpha2"), vmi);
  for (const version of VERSIONS) {
    const found = await admin.store.find(of(VIRTUAL_MACHINE_INSTANCES, version), KEY);
    expect(found?.apiVersion).toBe(`kubevirt.io/${version}`);
    expect(found?.spec).toEqual(vmi.spec);
    const type = of(VIRTUAL_MACHINE_INSTANCES, version);
    const fields = { metadata: { labels: { [version]: "been" } } };
    await admin.store.patch(type, KEY, { type: "merge", fields });
  }
  const labels = { ...vmi.metadata.labels, v1: "been", v1alpha3: "been", v1alpha2: "been" };
  for (const version of VERSIONS) {
    const last = await eventually(
      () => {
        const now = observed.get(version);
        return now?.metadata.labels?.["v1alpha2"] === "been" ? now : undefined;
      },
      { withinMs: 5000 },
    );
    expect(last.apiVersion).toBe(`kubevirt.io/${version}`);
    expect(last.metadata.labels).toEqual(labels);
    expect(last.spec).toEqual(vmi.spec);
  }
  for (const watch of watches) watch.unsubscribe();
  await admin.store.delete(of(VIRTUAL_MACHINE_INSTANCES, "v1alpha3"), KEY);
  expect(await admin.store.find(VIRTUAL_MACHINE_INSTANCES, KEY)).toBeUndefined();
});

test("rejects a wrong value and a misspelled field in every version", async () => {
  for (const version of VERSIONS) {
    const post = (spec: object): Promise<unknown> =>
      admin.requestRaw({
        method: "POST",
        path: `/apis/kubevirt.io/${version}/namespaces/default/virtualmachineinstances?fieldValidation=Strict`,
        body: {
          apiVersion: `kubevirt.io/${version}`,
          kind: "VirtualMachineInstance",
          metadata: { name: "wrong" },
          spec,
        },
      });
    await expect(post({ domain: {}, networks: "all" })).rejects.toThrow("spec.networks");
    await expect(post({ domain: { memroy: {} } })).rejects.toThrow("spec.domain.memroy");
  }
});
