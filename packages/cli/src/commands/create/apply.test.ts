// SPDX-License-Identifier: Apache-2.0
import { PERSISTENT_VOLUME_CLAIMS, SECRETS, VIRTUAL_MACHINES } from "@patchbay/api";
import { createFakeStore } from "@patchbay/kube/testing";
import { expect, test } from "vitest";
import { createObjects } from "./apply.ts";
import { createVmObjects } from "@patchbay/core/new-vm";

const OBJECTS = createVmObjects({
  name: "web",
  namespace: "blue",
  volumes: [{ name: "root", source: { image: "debian12" } }],
  size: { memory: "1Gi", cpus: 1 },
  instancetype: undefined,
  preference: undefined,
  userData: "#cloud-config\n",
  disks: ["1Gi"],
  networks: [],
  macs: new Map<string, string>(),
  isStopped: false,
});

test("the VM owns its secret but not its claims", async () => {
  const store = createFakeStore();
  await createObjects(store, OBJECTS, {});
  const vm = await store.find(VIRTUAL_MACHINES, { namespace: "blue", name: "web" });
  const secret = await store.find(SECRETS, { namespace: "blue", name: "web-cloud-init" });
  expect(secret?.metadata.ownerReferences).toEqual([
    {
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachine",
      name: "web",
      uid: vm?.metadata.uid,
    },
  ]);
  const [claim] = (await store.list(PERSISTENT_VOLUME_CLAIMS)).items;
  expect(claim?.metadata).toMatchObject({ name: "web-disk-1" });
  expect(claim?.metadata.ownerReferences).toBeUndefined();
});

test("creates nothing if a claim already exists", async () => {
  const store = createFakeStore();
  for (const claim of OBJECTS.claims) await store.create(PERSISTENT_VOLUME_CLAIMS, claim);
  await expect(createObjects(store, OBJECTS, {})).rejects.toMatchObject({
    code: "KUBE_ALREADY_EXISTS",
  });
  expect((await store.list(VIRTUAL_MACHINES)).items).toEqual([]);
  expect((await store.list(SECRETS)).items).toEqual([]);
});
