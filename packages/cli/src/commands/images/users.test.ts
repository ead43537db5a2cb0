// SPDX-License-Identifier: Apache-2.0
import type { DataVolume, VirtualMachine, VirtualMachineInstance } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { findImageUsers, listUsers } from "./users.ts";

const dataDir = mkdtempSync(join(tmpdir(), "image-users-"));

afterAll(() => {
  rmSync(dataDir, { recursive: true });
});

function podOf(name: string, change: Partial<Pod["spec"]>, phase: "Running" | "Failed"): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: "ns", name },
    spec: { containers: [{ name: "c", image: "virt-launcher" }], ...change },
    status: { phase },
  };
}

const VOLUMES = { volumes: [{ name: "boot", image: { reference: "guest" } }] };

function vmOf(name: string, image: string): VirtualMachine {
  const firmware = { kernelBoot: { container: { image } } };
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { namespace: "ns", name },
    spec: { template: { spec: { domain: { firmware } } } },
  };
}

function vmiOf(name: string, image: string, owned: boolean): VirtualMachineInstance {
  const owner = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name, uid: "u" };
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: { namespace: "ns", name, ...(owned && { ownerReferences: [owner] }) },
    spec: { domain: { firmware: { kernelBoot: { container: { image } } } } },
  };
}

function vmOfDisk(name: string, volume: object): VirtualMachine {
  const volumes = [{ name: "root", ...volume }];
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { namespace: "ns", name },
    spec: { template: { spec: { domain: {}, volumes } } },
  };
}

function vmOfClaim(name: string, image: string): VirtualMachine {
  const spec = {
    source: { registry: { url: `docker://${image}` } },
    storage: { resources: { requests: { storage: "1Gi" } } },
  };
  const vm = vmOf(name, "of-a-kernel");
  return { ...vm, spec: { ...vm.spec, dataVolumeTemplates: [{ metadata: { name }, spec }] } };
}

function filled(name: string): DataVolume {
  return {
    apiVersion: "cdi.kubevirt.io/v1beta1",
    kind: "DataVolume",
    metadata: { namespace: "ns", name },
    spec: {},
    status: { phase: "Succeeded" },
  };
}

const users = {
  pods: [
    podOf("a", VOLUMES, "Running"),
    podOf("b", {}, "Running"),
    podOf("c", VOLUMES, "Failed"),
    podOf("d", { initContainers: [{ name: "i", image: "guest:latest" }] }, "Running"),
  ],
  vms: [
    vmOf("v", "docker.io/library/guest"),
    vmOf("w", "other"),
    vmOf("x", "No Name"),
    vmOfDisk("z", { containerDisk: { image: "debian12" } }),
    vmOfClaim("unfilled", "gold"),
    vmOfClaim("filled", "gold"),
    vmOfDisk("old", { registryDisk: { image: "debian12:latest" } }),
  ],
  vmis: [vmiOf("v", "guest", true), vmiOf("y", "guest", false)],
  dataVolumes: [filled("filled")],
};

test.each([
  {
    image: "guest",
    want: ["pod ns/a", "pod ns/d", "virtualmachine ns/v", "virtualmachineinstance ns/y"],
  },
  { image: "docker.io/library/other:latest", want: ["virtualmachine ns/w"] },
  { image: "virt-launcher", want: ["pod ns/a", "pod ns/b", "pod ns/d"] },
  { image: "debian12", want: ["virtualmachine ns/z", "virtualmachine ns/old"] },
  { image: "gold", want: ["virtualmachine ns/unfilled"] },
  { image: "guest:v2", want: [] },
])("$image is used by $want, in any notation", ({ image, want }) => {
  expect(listUsers(image, users)).toEqual(want);
});

/** Nothing listens at its port. */
const KUBECONFIG = {
  apiVersion: "v1",
  kind: "Config",
  "current-context": "stopped",
  clusters: [{ name: "stopped", cluster: { server: "http://127.0.0.1:1" } }],
  users: [{ name: "stopped", user: {} }],
  contexts: [{ name: "stopped", context: { cluster: "stopped", user: "stopped" } }],
};

test.each([
  { name: "was never started", files: {} },
  { name: "was stopped", files: { kubeconfig: JSON.stringify(KUBECONFIG) } },
])("the users are unknown if the machine $name", async ({ files }) => {
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dataDir, name), text);
  const signal = AbortSignal.timeout(5_000);
  const context = { global: { dataDir, output: "table" }, err: process.stderr, signal } as const;
  expect(await findImageUsers(context, "guest")).toBeUndefined();
});
