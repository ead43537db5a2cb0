// SPDX-License-Identifier: Apache-2.0
// Lookups of admission, and behavior if the server does not respond.
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  VIRTUAL_MACHINE_INSTANCES,
  type Iface,
  type Network,
  type VirtualMachine,
  type VmiSpec,
} from "@patchbay/api";
import { AppError } from "@patchbay/base";
import type { MacOwner } from "@patchbay/core/nics";
import type { Store } from "@patchbay/core/interfaces";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { beforeEach, describe, expect, test } from "vitest";
import {
  admissionRequest,
  MAC,
  SOCKET,
  SOCKET_CONFIG,
  specWith,
  vmiWith,
  vmWith,
} from "../testing/admission.ts";
import { depsOn } from "../testing/deps.ts";
import { aVm, aVmi } from "../testing/objects.ts";
import { mutate } from "./mutate.ts";
import { listMacConflictCauses, listMacConflictWarnings, validate } from "./validate.ts";

let store: FakeStore;

beforeEach(() => {
  store = createFakeStore();
});

/** Logged warnings. */
class Log {
  readonly warnings: string[] = [];
  readonly logger = {
    ...createSilentLogger(),
    warn: (message: string) => void this.warnings.push(message),
  };
}

/** A server that fails all reads. */
function deaf(): Store {
  const bound = { ...store, create: store.create.bind(store), patch: store.patch.bind(store) };
  return { ...bound, find: () => Promise.reject(new AppError("KUBE_UNREACHABLE", {})) };
}

describe("a MAC that another VM uses", () => {
  const IFACE = { bridge: {}, macAddress: MAC };
  const SPEC = specWith(IFACE);
  const MESSAGE = `MAC address ${MAC} is in use on network ns/blue by `;

  function judge(owners: readonly MacOwner[], old?: VmiSpec, spec = SPEC) {
    const deps = { listMacOwners: () => owners, segmentOf: (network: string) => network };
    const question = { namespace: "ns", name: "vm", spec, old, base: "spec" };
    return listMacConflictCauses(deps, question).map(({ field, message }) => `${field} ${message}`);
  }

  function ownerOf(name: string, namespace = "ns"): MacOwner {
    const network: Network = { name: "nic1", multus: { networkName: "ns/blue" } };
    return { namespace, name, spec: specWith(IFACE, network) };
  }

  const FIELD = "spec.domain.devices.interfaces[1].macAddress";

  test("is rejected with the VM's name, which is hidden in another namespace", () => {
    expect(judge([ownerOf("other")])).toEqual([`${FIELD} ${MESSAGE}VM ns/other`]);
    expect(judge([ownerOf("other", "ns2")])).toEqual([
      `${FIELD} ${MESSAGE}a VM of another namespace`,
    ]);
  });

  test.each<{ name: string; old: VmiSpec | undefined; isRefused: boolean }>([
    { name: "a new VM", old: undefined, isRefused: true },
    { name: "a new NIC", old: specWith(undefined), isRefused: true },
    { name: "a changed MAC", old: specWith({ ...IFACE, macAddress: "" }), isRefused: true },
    { name: "a stored NIC", old: SPEC, isRefused: false },
  ])("$name: rejected: $isRefused", ({ old, isRefused }) => {
    expect(judge([ownerOf("other")], old)).toHaveLength(isRefused ? 1 : 0);
  });

  test("is rejected only for the new NIC", () => {
    const twice = (ifaces: readonly Iface[]): VmiSpec => ({
      domain: { devices: { interfaces: [...ifaces] } },
      networks: ["a", "b"].map((name) => ({ name, multus: { networkName: "blue" } })),
    });
    const before = { name: "a", macAddress: MAC };
    const spec = twice([before, { name: "b", macAddress: MAC }]);
    const found = judge([ownerOf("other")], twice([before]), spec);
    expect(found).toEqual([`spec.domain.devices.interfaces[1].macAddress ${MESSAGE}VM ns/other`]);
  });

  test("is not searched for if no MAC is new", () => {
    const listMacOwners = (): readonly MacOwner[] => {
      throw new Error("asked");
    };
    const question = { namespace: "ns", name: "vm", spec: SPEC, old: SPEC, base: "spec" };
    const segmentOf = (network: string): string => network;
    expect(listMacConflictCauses({ listMacOwners, segmentOf }, question)).toEqual([]);
  });

  test("is recognized in any format", () => {
    const dashes = specWith({ ...IFACE, macAddress: MAC.toUpperCase().replaceAll(":", "-") });
    expect(judge([ownerOf("other")], SPEC, dashes)).toEqual([]);
    expect(judge([ownerOf("other")], undefined, dashes)).toHaveLength(1);
  });

  test("is found on another network of the same bridge", () => {
    const network: Network = { name: "nic1", multus: { networkName: "blue2" } };
    const owners = [{ namespace: "ns", name: "other", spec: specWith(IFACE, network) }];
    const deps = { listMacOwners: () => owners, segmentOf: () => "bridge br1 0" };
    const question = { namespace: "ns", name: "vm", spec: SPEC, old: undefined, base: "spec" };
    expect(listMacConflictCauses(deps, question).map(({ message }) => message)).toEqual([
      `MAC address ${MAC} is in use on the bridge of network ns/blue by VM ns/other`,
    ]);
  });

  test.each([
    { name: "a new MAC", old: undefined, isHalted: false, count: 1 },
    { name: "a MAC of a halted VM", old: undefined, isHalted: true, count: 1 },
    { name: "a stored MAC", old: "same", isHalted: false, count: 0 },
  ])("twice in one VM on two networks of a bridge causes a warning: $name", (row) => {
    const nic = (name: string): Iface => ({ ...IFACE, name });
    const networks = ["a", "b"].map((name) => ({ name, multus: { networkName: name } }));
    const spec: VmiSpec = {
      domain: { devices: { interfaces: [nic("a"), nic("b")] } },
      networks,
    };
    const deps = { listMacOwners: () => [], segmentOf: () => "bridge br1" };
    const old = row.old === undefined ? undefined : spec;
    const { isHalted, count } = row;
    const question = { namespace: "ns", name: "vm", spec, old, base: "spec", isHalted };
    expect(listMacConflictCauses(deps, question)).toEqual([]);
    const text = `spec.domain.devices.interfaces[1].macAddress: MAC address ${MAC} is that of interface 'a' too`;
    const warnings = listMacConflictWarnings(deps, question);
    expect(warnings.map((warning) => warning.slice(0, text.length))).toEqual(
      Array.from({ length: count }, () => text),
    );
  });

  const RUNS = { causes: 1, warnings: 0 };
  const WAITS = { causes: 0, warnings: 1 };
  const SILENT = { causes: 0, warnings: 0 };
  test.each([
    { name: "two running VMs", given: {}, want: RUNS },
    { name: "a halted VM", given: { isHalted: true }, want: WAITS },
    {
      name: "a VM beside a halted VM with the same MAC",
      given: { isOtherHalted: true },
      want: WAITS,
    },
    { name: "a start", given: { wasHalted: true, old: SPEC }, want: RUNS },
    {
      name: "a start beside a halted VM",
      given: { wasHalted: true, old: SPEC, isOtherHalted: true },
      want: WAITS,
    },
    { name: "a stop", given: { isHalted: true, old: SPEC }, want: SILENT },
    {
      name: "an edit of a halted VM",
      given: { isHalted: true, wasHalted: true, old: SPEC },
      want: SILENT,
    },
  ])("of $name: $want", ({ given, want }) => {
    const {
      isOtherHalted,
      old,
      ...rest
    }: {
      isOtherHalted?: boolean;
      old?: VmiSpec;
      isHalted?: boolean;
      wasHalted?: boolean;
    } = given;
    const owner = { ...ownerOf("other"), isHalted: isOtherHalted === true };
    const deps = { listMacOwners: () => [owner], segmentOf: (network: string) => network };
    const question = { namespace: "ns", name: "vm", spec: SPEC, old, base: "spec", ...rest };
    const [causes, warnings] = [
      listMacConflictCauses(deps, question),
      listMacConflictWarnings(deps, question),
    ];
    expect({ causes: causes.length, warnings: warnings.length }).toEqual(want);
  });
});

describe("referenced networks", () => {
  function adding(networkName: string): VirtualMachine {
    return vmWith({ bridge: {} }, { name: "nic1", multus: { networkName } });
  }

  async function listWarnings(networkName: string, from: Store = store): Promise<unknown> {
    const log = new Log();
    const deps = depsOn(from, { log: log.logger, mayReadNetwork: () => Promise.resolve(true) });
    const verdict = await validate(deps, admissionRequest(adding(networkName)));
    return { ...verdict, logged: log.warnings };
  }

  test("cause no warning if they exist, in any namespace", async () => {
    for (const namespace of ["ns", "other"]) {
      store.put(NETWORK_ATTACHMENT_DEFINITIONS, {
        apiVersion: "k8s.cni.cncf.io/v1",
        kind: "NetworkAttachmentDefinition",
        metadata: { namespace, name: "blue" },
      });
    }
    expect(await listWarnings("blue")).toMatchObject({ warnings: [], logged: [] });
    expect(await listWarnings("other/blue")).toMatchObject({ warnings: [], logged: [] });
  });

  test("cause a warning with their full name if they are missing", async () => {
    const words = (full: string): string =>
      `network "nic1": NetworkAttachmentDefinition "${full}" does not exist yet; the interface waits for it`;
    expect(await listWarnings("blue")).toMatchObject({ warnings: [words("ns/blue")] });
    expect(await listWarnings("other/blue")).toMatchObject({ warnings: [words("other/blue")] });
  });

  test("do not cause a rejection if the server does not respond", async () => {
    expect(await listWarnings("blue", deaf())).toEqual({
      allowed: true,
      warnings: [],
      logged: ["cannot look up a network"],
    });
  });

  test("do not include the pod network", async () => {
    expect(await validate(depsOn(store), admissionRequest(vmWith(undefined)))).toEqual({
      allowed: true,
      warnings: [],
    });
    expect(store.calls).toEqual([]);
  });
});

test("a status write is checked by its user, even with an invalid object", async () => {
  const user = "system:serviceaccount:patchbay:virt-handler";
  const request = { ...admissionRequest(aVmi(), aVmi(), user), subresource: "status" };
  expect(await validate(depsOn(store), request)).toMatchObject({ allowed: false, code: 403 });
  const byAlice = { ...admissionRequest(aVmi(), aVmi()), subresource: "status" };
  expect(await validate(depsOn(store), byAlice)).toEqual({ allowed: true });
  const ofVm = { ...admissionRequest(aVm(), aVm(), user), subresource: "status" };
  expect(await validate(depsOn(store), ofVm)).toEqual({ allowed: true });
});

test("accepts objects of other kinds", async () => {
  const request = { ...admissionRequest(aVm()), kind: "Pod" };
  expect(await validate(depsOn(store), request)).toEqual({ allowed: true });
});

test("accepts a VM that is being deleted", async () => {
  const metadata = { ...aVm().metadata, deletionTimestamp: "2026-01-01T00:00:00Z" };
  const vm = { ...vmWith({ bridge: {}, model: "x" }), metadata };
  expect(await validate(depsOn(store), admissionRequest(vm, aVm()))).toEqual({ allowed: true });
});

describe("the VM's VMI", () => {
  const PLUGGED = vmWith({ bridge: {}, macAddress: MAC });
  const LOOKED = "get virtualmachineinstances ns/vm";

  async function looksFor(vm: VirtualMachine, old?: VirtualMachine, user?: string) {
    await validate(depsOn(store), admissionRequest(vm, old, user));
    return store.calls.includes(LOOKED);
  }

  test.each<{ name: string; vm: VirtualMachine; old?: VirtualMachine; want: boolean }>([
    { name: "a new VM", vm: PLUGGED, want: false },
    { name: "a VM that gets a NIC", vm: PLUGGED, old: vmWith(undefined), want: true },
    {
      name: "a VM whose NIC is added again",
      vm: PLUGGED,
      old: vmWith({ bridge: {}, state: "absent" }),
      want: true,
    },
    { name: "a VM that loses a NIC", vm: vmWith(undefined), old: PLUGGED, want: false },
    {
      name: "a VM whose NIC is changed",
      vm: PLUGGED,
      old: vmWith({ bridge: {}, macAddress: "" }),
      want: false,
    },
  ])("$name: the VMI is looked up: $want", async ({ vm, old, want }) => {
    expect(await looksFor(vm, old)).toBe(want);
  });

  test("is not looked up for writes of virt-api, which were validated before", async () => {
    const user = "system:serviceaccount:patchbay:virt-api";
    expect(await looksFor(PLUGGED, vmWith(undefined), user)).toBe(false);
    expect(store.calls).toEqual([]);
  });

  test("does not cause a rejection if the server does not respond", async () => {
    const log = new Log();
    const request = admissionRequest(PLUGGED, vmWith(undefined));
    const verdict = await validate(depsOn(deaf(), { log: log.logger }), request);
    expect(verdict).toEqual({ allowed: true, warnings: [] });
    expect(log.warnings).toContain("cannot look up the VMI");
  });

  test.each([
    { name: "has ended", vmi: { ...aVmi(), status: { phase: "Failed" as const } } },
    {
      name: "is being deleted",
      vmi: {
        ...aVmi(),
        metadata: { ...aVmi().metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
      },
    },
    {
      name: "has no owner",
      vmi: { ...aVmi(), metadata: { ...aVmi().metadata, ownerReferences: [] } },
    },
  ])("that $name causes no warning about ports", async ({ vmi }) => {
    const pciePorts = { total: 1, free: 0 };
    store.put(VIRTUAL_MACHINE_INSTANCES, { ...vmi, status: { ...vmi.status, pciePorts } });
    const verdict = await validate(depsOn(store), admissionRequest(PLUGGED, vmWith(undefined)));
    expect(JSON.stringify(verdict)).not.toContain("waits until a port is free");
  });
});

describe("a missing MAC", () => {
  const PATH = "/spec/template/spec/domain/devices/interfaces/1/macAddress";
  const NEW = { op: "add", path: PATH, value: "02:01:01:01:01:01" };
  const LACKING = vmWith(SOCKET);
  const EARLIER = vmiWith("vm", { ...SOCKET, macAddress: MAC, state: "absent" });
  const networkConfig = () => SOCKET_CONFIG;

  async function patchOf(old: VirtualMachine | undefined, from: Store = store) {
    const log = new Log();
    const verdict = await mutate(
      depsOn(from, { log: log.logger, networkConfig }),
      admissionRequest(LACKING, old),
    );
    return { verdict, logged: log.warnings };
  }

  test("is generated for a new VM, even if a VMI exists", async () => {
    store.put(VIRTUAL_MACHINE_INSTANCES, EARLIER);
    expect(await patchOf(undefined)).toEqual({
      verdict: { allowed: true, patch: [NEW] },
      logged: [],
    });
    expect(store.calls).toEqual([]);
  });

  test("is generated if the VMI belongs to another owner", async () => {
    store.put(VIRTUAL_MACHINE_INSTANCES, {
      ...EARLIER,
      metadata: { ...EARLIER.metadata, ownerReferences: [] },
    });
    expect((await patchOf(vmWith(undefined))).verdict).toEqual({ allowed: true, patch: [NEW] });
  });

  test("is generated if the server does not respond", async () => {
    expect(await patchOf(vmWith(undefined), deaf())).toEqual({
      verdict: { allowed: true, patch: [NEW] },
      logged: ["cannot look up an earlier MAC"],
    });
  });

  test("is copied from the VMI beside a NIC with its own MAC", async () => {
    const networks = ["a", "b"].map((name) => ({ name, multus: { networkName: "blue" } }));
    const vmOf = (interfaces: Iface[]): VirtualMachine =>
      aVm({ template: { spec: { domain: { devices: { interfaces } }, networks } } });
    const a = { name: "a", ...SOCKET, macAddress: "02:00:00:00:00:0b" };
    const b = { name: "b", ...SOCKET };
    const request = admissionRequest(vmOf([a, b]), vmOf([a, { ...b, macAddress: MAC }]));
    expect(await mutate(depsOn(store, { networkConfig }), request)).toEqual({
      allowed: true,
      patch: [{ ...NEW, value: MAC }],
    });
  });

  test("is not looked up if all NICs have one", async () => {
    const whole = vmWith({ bridge: {}, macAddress: MAC });
    const first = aVm().spec.template.spec.domain.devices?.interfaces?.[0];
    expect(first?.macAddress).toBeUndefined();
    const interfaces = [{ name: "nic1", bridge: {}, macAddress: MAC }];
    const networks = [{ name: "nic1", multus: { networkName: "blue" } }];
    const template = { spec: { domain: { devices: { interfaces } }, networks } };
    await mutate(
      depsOn(store),
      admissionRequest({ ...whole, spec: { template } }, vmWith(undefined)),
    );
    expect(store.calls).toEqual([]);
  });

  test("of a VMI without a VM is not copied from another VMI", async () => {
    const before = vmiWith("lone", undefined);
    await mutate(depsOn(store), admissionRequest(vmiWith("lone", { bridge: {} }), before));
    expect(store.calls).toEqual([]);
  });

  test("of an object that is being deleted is not set", async () => {
    const metadata = { ...LACKING.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" };
    const verdict = await mutate(depsOn(store), admissionRequest({ ...LACKING, metadata }));
    expect(verdict).toEqual({ allowed: true });
  });
});
