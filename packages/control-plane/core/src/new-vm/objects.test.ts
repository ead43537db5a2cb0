// SPDX-License-Identifier: Apache-2.0
import { validateVmChange } from "@patchbay/api/validate";
import { describe, expect, test } from "vitest";
import { readDataVolume } from "../vm/index.ts";
import {
  createVmObjects,
  findNewVmProblems,
  withOwner,
  type NewVm,
  type NewVmProblem,
} from "./objects.ts";

const ORDER: NewVm = {
  name: "web",
  namespace: "blue",
  volumes: [{ name: "root", source: { image: "debian12" }, bootOrder: 1 }],
  size: { memory: "2Gi", cpus: 2 },
  instancetype: undefined,
  preference: undefined,
  userData: "#cloud-config\n",
  disks: [],
  networks: [],
  macs: new Map(),
  isStopped: false,
};

function orderWith(more: Partial<NewVm>): NewVm {
  return { ...ORDER, ...more };
}

describe("createVmObjects", () => {
  test("creates the image's disk, the cloud-init disk and a NIC on the pod network", () => {
    const { vm, claims, secret } = createVmObjects(ORDER);
    expect(vm).toMatchObject({
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachine",
      metadata: { name: "web", namespace: "blue" },
      spec: { runStrategy: "Always" },
    });
    expect(vm.spec.template.spec).toEqual({
      domain: {
        cpu: { cores: 2 },
        memory: { guest: "2Gi" },
        devices: {
          disks: [
            { name: "root", bootOrder: 1, disk: { bus: "virtio" } },
            { name: "cloud-init", disk: { bus: "virtio" } },
          ],
          interfaces: [{ name: "default", bridge: {} }],
        },
      },
      networks: [{ name: "default", pod: {} }],
      volumes: [
        { name: "root", containerDisk: { image: "debian12", imagePullPolicy: "IfNotPresent" } },
        { name: "cloud-init", cloudInitNoCloud: { secretRef: { name: "web-cloud-init" } } },
      ],
    });
    expect(claims).toEqual([]);
    expect(secret).toMatchObject({
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "web-cloud-init", namespace: "blue" },
      stringData: { userdata: "#cloud-config\n" },
    });
  });

  test("omits the namespace if none is set", () => {
    const { vm } = createVmObjects(orderWith({ namespace: undefined }));
    expect(vm.metadata).toEqual({ name: "web" });
  });

  test("halts a VM with isStopped", () => {
    expect(createVmObjects(orderWith({ isStopped: true })).vm.spec.runStrategy).toBe("Halted");
  });

  test.each([
    { name: "no further options", more: {} },
    {
      name: "all kinds of disks",
      more: { disks: ["1Gi", "2Gi"], networks: ["a", "b/c"], networkData: "version: 2\n" },
    },
  ])("passes admission with $name", ({ more }) => {
    expect(validateVmChange(undefined, createVmObjects(orderWith(more)).vm.spec)).toEqual([]);
  });
});

test("omits size and disk bus with an instancetype and a preference", () => {
  const { spec } = createVmObjects(
    orderWith({
      size: undefined,
      instancetype: { name: "small" },
      preference: { inferFromVolume: "gold" },
      volumes: [{ name: "gold", source: { claim: "gold" }, bootOrder: 1 }],
    }),
  ).vm;
  expect(spec).toMatchObject({
    instancetype: { name: "small" },
    preference: { inferFromVolume: "gold" },
    template: {
      spec: { volumes: [{ name: "gold", persistentVolumeClaim: { claimName: "gold" } }, {}] },
    },
  });
  expect(spec.template.spec.domain).toEqual({
    devices: {
      disks: [
        { name: "gold", bootOrder: 1, disk: {} },
        { name: "cloud-init", disk: {} },
      ],
      interfaces: [{ name: "default", bridge: {} }],
    },
  });
  expect(validateVmChange(undefined, spec)).toEqual([]);
});

test("creates a DataVolume template for a root disk with a size", () => {
  const order = orderWith({ rootSize: "10Gi" });
  const { vm, claims } = createVmObjects(order);
  const [template] = vm.spec.dataVolumeTemplates ?? [];
  expect(template).toEqual({
    metadata: { name: "web-root" },
    spec: {
      source: { registry: { url: "docker://debian12" } },
      storage: {
        accessModes: ["ReadWriteOnce"],
        resources: { requests: { storage: "10Gi" } },
      },
    },
  });
  expect(vm.spec.template.spec.volumes?.[0]).toEqual({
    name: "root",
    dataVolume: { name: "web-root" },
  });
  expect(claims).toEqual([]);
  expect(validateVmChange(undefined, vm.spec)).toEqual([]);
  expect(readDataVolume(template?.spec, "blue")).toMatchObject({
    order: { size: "10Gi", source: { image: "debian12" } },
  });
});

describe("findNewVmProblems", () => {
  test.each<{ more: Partial<NewVm>; want: readonly NewVmProblem[] }>([
    { more: { disks: ["1Gi"], networks: ["blue"] }, want: [] },
    {
      more: { volumes: [{ name: "cloud-init", source: { claim: "c" } }] },
      want: [{ field: "volumes", name: "cloud-init" }],
    },
    { more: { networks: ["blue", "other/blue"] }, want: [{ field: "networks", name: "blue" }] },
    { more: { networks: ["default"] }, want: [{ field: "networks", name: "default" }] },
  ])("returns $want", ({ more, want }) => {
    expect(findNewVmProblems(orderWith(more))).toEqual(want);
  });
});

test("the VM that the API server returned owns the secret", () => {
  const { vm, secret } = createVmObjects(ORDER);
  const stored = { ...vm, metadata: { ...vm.metadata, uid: "7" } };
  const owner = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: "web", uid: "7" };
  expect(withOwner(stored, secret)).toEqual({
    ...secret,
    metadata: { ...secret.metadata, ownerReferences: [owner] },
  });
});

test("each disk has a claim of its size and a serial number for the guest", () => {
  const { vm, claims } = createVmObjects(orderWith({ disks: ["10Gi", "1Gi"] }));
  expect(claims.map(({ metadata, spec }) => [metadata.name, spec.resources?.requests])).toEqual([
    ["web-disk-1", { storage: "10Gi" }],
    ["web-disk-2", { storage: "1Gi" }],
  ]);
  const { domain, volumes } = vm.spec.template.spec;
  expect(domain.devices?.disks?.at(2)).toMatchObject({ name: "disk-1", serial: "disk-1" });
  expect(volumes?.at(2)).toEqual({
    name: "disk-1",
    persistentVolumeClaim: { claimName: "web-disk-1" },
  });
});

test("the secret contains the network data", () => {
  const { vm, secret } = createVmObjects(orderWith({ networkData: "version: 2\n" }));
  expect(Object.keys(secret.stringData)).toEqual(["userdata", "networkdata"]);
  expect(vm.spec.template.spec.volumes?.at(1)).toEqual({
    name: "cloud-init",
    cloudInitNoCloud: {
      secretRef: { name: "web-cloud-init" },
      networkDataSecretRef: { name: "web-cloud-init" },
    },
  });
});

describe("networks", () => {
  test("name the interfaces", () => {
    const { spec } = createVmObjects(orderWith({ networks: ["blue", "other/red"] })).vm.spec
      .template;
    expect(spec.domain.devices?.interfaces?.map(({ name }) => name)).toEqual([
      "default",
      "blue",
      "red",
    ]);
    expect(spec.networks?.at(2)).toEqual({ name: "red", multus: { networkName: "other/red" } });
  });

  test("get the requested MACs", () => {
    const macs = new Map([["blue", "02:00:00:00:00:01"]]);
    const { spec } = createVmObjects(orderWith({ networks: ["blue"], macs })).vm.spec.template;
    expect(spec.domain.devices?.interfaces).toEqual([
      { name: "default", bridge: {} },
      { name: "blue", bridge: {}, macAddress: "02:00:00:00:00:01" },
    ]);
  });
});
