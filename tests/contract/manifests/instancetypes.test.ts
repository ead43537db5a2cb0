// SPDX-License-Identifier: Apache-2.0
// CRDs of instancetypes and preferences, with kubectl and virt-api at the embedded API server: applied, rejected and
// expanded VMs, the default NIC of a VM, and rejected kinds.
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { VirtApiMachine, type Person } from "../../attacks/virt-api-machine.ts";

const GROUP_VERSION = "instancetype.kubevirt.io/v1beta1";
const GROUP = `/apis/${GROUP_VERSION}`;
const SUBRESOURCES = "/apis/subresources.kubevirt.io/v1/namespaces/default";

const SMALL = {
  apiVersion: GROUP_VERSION,
  kind: "VirtualMachineClusterInstancetype",
  metadata: { name: "small" },
  spec: { cpu: { guest: 2 }, memory: { guest: "1Gi" } },
};
const LINUX = {
  apiVersion: GROUP_VERSION,
  kind: "VirtualMachinePreference",
  metadata: { name: "linux" },
  spec: {
    cpu: { preferredCPUTopology: "cores" },
    devices: { preferredInterfaceModel: "e1000e" },
    requirements: { cpu: { guest: 2 } },
  },
};
const PARTS = {
  instancetype: { name: "small" },
  preference: { name: "linux", kind: "VirtualMachinePreference" },
};

function vmOf(name: string, spec: object, domain: object = {}): object {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { name },
    spec: { runStrategy: "Halted", ...spec, template: { spec: { domain } } },
  };
}

interface Said {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

let machine: VirtApiMachine;
let admin: Person;
let directory: string;

beforeAll(async () => {
  machine = await VirtApiMachine.start();
  admin = await machine.person("admin", ["system:masters"]);
  directory = await mkdtemp(join(tmpdir(), "instancetypes-"));
  await writeFile(join(directory, "kubeconfig"), machine.api.kubeconfig, { mode: 0o600 });
  await admin.ask("POST", `${GROUP}/virtualmachineclusterinstancetypes`, SMALL);
  await admin.ask("POST", `${GROUP}/namespaces/default/virtualmachinepreferences`, LINUX);
});
afterAll(async () => {
  await machine[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

async function kubectl(...args: readonly string[]): Promise<Said> {
  const env = { ...process.env, KUBECONFIG: join(directory, "kubeconfig"), HOME: directory };
  const { promise, resolve } = Promise.withResolvers<Said>();
  execFile("kubectl", args, { env, timeout: 120_000 }, (error, out, err) => {
    resolve({ code: error === null ? 0 : Number(error.code ?? 1), out, err });
  });
  return promise;
}

async function apply(object: object, ...more: readonly string[]): Promise<Said> {
  const file = join(directory, "object.json");
  await writeFile(file, JSON.stringify(object));
  return kubectl("apply", "-f", file, ...more);
}

async function specOf(name: string): Promise<unknown> {
  const { out } = await kubectl("get", "vm", name, "-o", "json");
  return (JSON.parse(out) as { readonly spec: unknown }).spec; // as kubectl prints it
}

const TEMPLATE = "spec.template.spec";
const NIC = {
  networks: [{ name: "default", pod: {} }],
  domain: { devices: { interfaces: [{ name: "default", bridge: {} }] } },
};

describe("a VM of an instancetype and a preference", () => {
  test("validates it in a dry run and stores it as written", async () => {
    const vm = vmOf("sized", PARTS);
    expect(await apply(vm, "--dry-run=server")).toMatchObject({ code: 0 });
    expect((await kubectl("get", "vm", "sized")).err).toContain("not found");
    expect(await apply(vm)).toMatchObject({ code: 0, err: "" });
    expect(await specOf("sized")).toEqual({
      runStrategy: "Halted",
      instancetype: { name: "small", kind: "virtualmachineclusterinstancetype" },
      preference: PARTS.preference,
      template: { spec: NIC },
    });
  });

  test("expands to all settings of both", async () => {
    const path = `${SUBRESOURCES}/virtualmachines/sized/expand-spec`;
    const { out } = await kubectl("get", "--raw", path);
    expect(JSON.parse(out)).toMatchObject({
      spec: {
        template: {
          spec: {
            domain: {
              cpu: { sockets: 1, cores: 2, threads: 1 },
              memory: { guest: "1Gi" },
              devices: { interfaces: [{ name: "default", model: "e1000e" }] },
            },
          },
        },
      },
    });
  });

  test("rejects a VM that sets their fields too, with each field", async () => {
    const domain = { cpu: { cores: 1 }, memory: { guest: "1Gi" } };
    const { code, err } = await apply(vmOf("clash", PARTS, domain), "--dry-run=server");
    expect(code).not.toBe(0);
    for (const field of ["cpu.cores", "memory.guest"]) {
      const path = `${TEMPLATE}.domain.${field}`;
      expect(err).toContain(`VM field(s) ${path} conflicts with selected instance type`);
    }
  });

  test.each([
    {
      name: "a missing instancetype or preference",
      spec: { instancetype: { name: "none" } },
      want: 'Failure to find instancetype: virtualmachineclusterinstancetypes.instancetype.kubevirt.io "none" not found',
    },
    {
      name: "less than its preference requires",
      spec: { preference: PARTS.preference },
      want: "failure checking preference requirements: no CPU resources provided by VirtualMachine, preference requires 2 vCPU",
    },
    {
      name: "a missing volume",
      spec: { instancetype: { inferFromVolume: "root" } },
      want: "unable to find volume root to infer defaults",
    },
  ])("rejects a VM with $name", async ({ spec, want }) => {
    const { code, err } = await apply(vmOf("refused", spec));
    expect(code).not.toBe(0);
    expect(err).toContain(want);
  });
});

test("every user sees the cluster's instancetypes by their short name", async () => {
  const somebody = await machine.person("somebody");
  const answer = await somebody.ask("GET", `${GROUP}/virtualmachineclusterinstancetypes`);
  expect(answer.code).toBe(200);
  expect((await kubectl("get", "vmcf,vmpref", "-o", "name")).out.split("\n")).toEqual([
    "virtualmachineclusterinstancetype.instancetype.kubevirt.io/small",
    "virtualmachinepreference.instancetype.kubevirt.io/linux",
    "",
  ]);
});

test("rejects an instancetype that contradicts itself", async () => {
  const memory = { guest: "1Gi", overcommitPercent: 10, hugepages: { pageSize: "2Mi" } };
  const { err } = await apply({
    ...SMALL,
    metadata: { name: "odd" },
    spec: { ...SMALL.spec, memory },
  });
  expect(err).toContain(
    "spec.memory.overcommitPercent and spec.memory.hugepages should not be requested together.",
  );
});

describe("a VM that declares no NIC", () => {
  test("gets a NIC on the pod network and retains the NIC when applied again", async () => {
    expect((await apply(vmOf("plain", {}))).code).toBe(0);
    expect(await specOf("plain")).toMatchObject({ template: { spec: NIC } });
    expect((await apply(vmOf("plain", { runStrategy: "Manual" }))).code).toBe(0);
    expect(await specOf("plain")).toMatchObject({ runStrategy: "Manual", template: { spec: NIC } });
    const file = join(directory, "object.json");
    const replaced = await kubectl("replace", "-f", file);
    expect(replaced.err).toContain("so it keeps its interface on the pod network");
    expect(await specOf("plain")).toMatchObject({ template: { spec: NIC } });
  });

  test("gets no NIC on request", async () => {
    const devices = { autoattachPodInterface: false };
    expect((await apply(vmOf("bare", {}, { devices }))).code).toBe(0);
    expect(await specOf("bare")).toEqual({
      runStrategy: "Halted",
      template: { spec: { domain: { devices } } },
    });
  });
});

describe("a VM that infers its instancetype from a volume", () => {
  const claim = (labels: object): object => ({
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "golden", labels },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
  });
  const vm = (matcher: object): object => ({
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { name: "inferred" },
    spec: {
      runStrategy: "Halted",
      instancetype: matcher,
      preference: matcher,
      template: {
        spec: {
          domain: { devices: { disks: [{ name: "root" }] } },
          volumes: [{ name: "root", persistentVolumeClaim: { claimName: "golden" } }],
        },
      },
    },
  });

  test("rejects a missing claim and one without labels", async () => {
    const inferred = vm({ inferFromVolume: "root", inferFromVolumeFailurePolicy: "Reject" });
    expect((await apply(inferred)).err).toContain('persistentvolumeclaims "golden" not found');
    expect((await apply(claim({}))).code).toBe(0);
    expect((await apply(inferred)).err).toContain(
      "unable to find required instancetype.kubevirt.io/default-instancetype label on the volume",
    );
    expect((await kubectl("get", "vm", "inferred")).err).toContain("not found");
  });

  test("uses the instancetype and preference that the claim's labels name", async () => {
    const labels = {
      "instancetype.kubevirt.io/default-instancetype": "small",
      "instancetype.kubevirt.io/default-preference": "linux",
      "instancetype.kubevirt.io/default-preference-kind": "VirtualMachinePreference",
    };
    expect((await apply(claim(labels))).code).toBe(0);
    expect(await apply(vm({ inferFromVolume: "root" }))).toMatchObject({ code: 0, err: "" });
    expect(await specOf("inferred")).toMatchObject({
      instancetype: { name: "small", kind: "virtualmachineclusterinstancetype" },
      preference: PARTS.preference,
    });
  });
});

describe.each([
  { apiVersion: "kubevirt.io/v1", kind: "VirtualMachineInstanceReplicaSet" },
  { apiVersion: "pool.kubevirt.io/v1beta1", kind: "VirtualMachinePool" },
  { apiVersion: "pool.kubevirt.io/v1alpha1", kind: "VirtualMachinePool" },
])("a $kind of $apiVersion", ({ apiVersion, kind }) => {
  test("is rejected with the alternative", async () => {
    const object = { apiVersion, kind, metadata: { name: "many" }, spec: { replicas: 3 } };
    const { code, err } = await apply(object);
    expect(code).not.toBe(0);
    expect(err).toContain(`Patchbay does not run ${kind}s`);
    expect(err).toContain("Write a VirtualMachine for each");
  });
});

test.each(["v1", "v1beta1", "v1alpha1"])(
  "rejects an export of %s with the alternative",
  async (version) => {
    const source = { apiGroup: "kubevirt.io", kind: "VirtualMachine", name: "vm" };
    const apiVersion = `export.kubevirt.io/${version}`;
    const { code, err } = await apply({
      apiVersion,
      kind: "VirtualMachineExport",
      metadata: { name: "disks" },
      spec: { source, ttlDuration: "2h0m0s" },
    });
    expect(code).not.toBe(0);
    expect(err).toContain("Patchbay does not have exports of VMs");
    expect(err).toContain("kubectl cp");
  },
);
