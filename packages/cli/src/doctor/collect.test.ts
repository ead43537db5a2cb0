// SPDX-License-Identifier: Apache-2.0
// Finding the data directory of the machine that a kubeconfig connects to, and tenants without a quota.
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { createFakeStore } from "@patchbay/kube/testing";
import { createFiles } from "@patchbay/os";
import { afterEach, beforeEach, expect, test } from "vitest";
import { findMachineDir, listUnlimitedTenants } from "./collect.ts";

const [SERVER, OTHER_SERVER] = ["https://127.0.0.1:6443", "https://127.0.0.1:7443"];

let root = "";

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "patchbay-machine-dir-"));
});

afterEach(async () => {
  await rm(root, { recursive: true });
});

async function machine(name: string, server: string): Promise<string> {
  const directory = join(root, name);
  await mkdir(join(directory, "run"), { recursive: true });
  const config = {
    apiVersion: "v1",
    kind: "Config",
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
    clusters: [{ name: "c", cluster: { server } }],
    users: [{ name: "u", user: { token: "t" } }],
  };
  await writeFile(join(directory, "kubeconfig"), JSON.stringify(config));
  return directory;
}

test("prefers the kubeconfig's directory over the default data directory", async () => {
  const own = await machine("own", SERVER);
  const dataDir = await machine("default", OTHER_SERVER);
  const hints = { kubeconfig: join(own, "kubeconfig"), server: SERVER, dataDir };
  expect(await findMachineDir(createFiles(), hints)).toBe(own);
});

test("finds the data directory with the same API server for a copied kubeconfig", async () => {
  const dataDir = await machine("default", SERVER);
  const kubeconfig = join(root, "copy");
  await copyFile(join(dataDir, "kubeconfig"), kubeconfig);
  expect(await findMachineDir(createFiles(), { kubeconfig, server: SERVER, dataDir })).toBe(
    dataDir,
  );
});

test("ignores the data directory of another machine and a missing one", async () => {
  const dataDir = await machine("default", OTHER_SERVER);
  const kubeconfig = join(root, "copy");
  for (const directory of [dataDir, join(root, "missing")]) {
    const hints = { kubeconfig, server: SERVER, dataDir: directory };
    expect(await findMachineDir(createFiles(), hints)).toBeUndefined();
  }
});

test("lists the namespaces with tenants and without a quota", async () => {
  const store = createFakeStore();
  const put = async (resource: string, kind: string, object: object): Promise<void> => {
    const group = kind === "RoleBinding" ? "rbac.authorization.k8s.io" : "";
    const type: ResourceType<KubeObject> = {
      group,
      version: "v1",
      resource,
      kind,
      namespaced: true,
    };
    const apiVersion = group === "" ? "v1" : `${group}/v1`;
    await store.create(type, { apiVersion, kind, ...object } as KubeObject);
  };
  const bind = (namespace: string, role: string) =>
    put("rolebindings", "RoleBinding", {
      metadata: { namespace, name: role },
      roleRef: { kind: "ClusterRole", name: role },
    });
  for (const namespace of ["open", "limited"])
    for (const role of ["admin", "edit", "view"]) await bind(namespace, role);
  await bind("read", "view");
  const metadata = { namespace: "limited", name: "tenant" };
  await put("resourcequotas", "ResourceQuota", { metadata });
  expect(await listUnlimitedTenants({ client: { store } })).toEqual({ value: ["open"] });
});
