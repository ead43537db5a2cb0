// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachine, VirtualMachineInstance } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { listChoices, filterUnits, NO_FILTER, type Filter } from "./filter.ts";
import { listJacks } from "./jacks.ts";
import { withSteps, type Steps } from "./nic/steps.ts";
import { toUnit, UnitCache, type Unit } from "./unit.ts";

const IFACES = [
  { name: "default", masquerade: {} },
  { name: "blue", bridge: {}, macAddress: "02:00:00:00:00:01" },
];
const SPEC = {
  domain: { devices: { interfaces: IFACES }, memory: { guest: "1Gi" } },
  networks: [
    { name: "default", pod: {} },
    { name: "blue", multus: { networkName: "blue" } },
  ],
};
const metadata = { namespace: "ns", name: "a" };

function aVm(more: object = {}): VirtualMachine {
  const status = { printableStatus: "Running" };
  return {
    apiVersion: "v1",
    kind: "VirtualMachine",
    metadata,
    spec: { template: { spec: SPEC } },
    status,
    ...more,
  };
}

function aVmi(status: object = {}): VirtualMachineInstance {
  const whole = { phase: "Running", nodeName: "one", ...status };
  return {
    apiVersion: "v1",
    kind: "VirtualMachineInstance",
    metadata,
    spec: SPEC,
    status: whole,
  } as VirtualMachineInstance;
}

const nic = (hotplug: object | undefined, more: object = {}) => ({
  interfaces: [
    { name: "blue", ...(hotplug && { hotplug: { type: "Plug", ...hotplug } }), ...more },
  ],
});

function plugNamed(unit: Unit, name: string) {
  return unit.plugs.find((plug) => plug.name === name);
}

describe("a plug", () => {
  test.each([
    { name: "that is in use", status: nic({ phase: "Ready" }), want: ["ready", "in use"] },
    {
      name: "with its link down",
      status: nic({ phase: "Ready" }, { linkState: "down" }),
      want: ["down", "link down"],
    },
    {
      name: "that the guest has since boot",
      status: nic(undefined, { infoSource: "domain" }),
      want: ["ready", "in use"],
    },
    { name: "without a reported status", status: {}, want: ["moving", "requested"] },
    {
      name: "that is in progress",
      status: nic({ phase: "Wiring" }),
      want: ["moving", "bridge and tap"],
    },
    {
      name: "that fails",
      status: nic({ phase: "PodAttaching", reason: "CniFailed", message: "no" }),
      want: ["failing", "CniFailed"],
    },
    {
      name: "with an unknown reason",
      status: nic({ phase: "Pending", reason: "Other" }),
      want: ["failing", "Other"],
    },
    {
      name: "with a reason that clears without user action",
      status: nic({ phase: "Pending", reason: "WaitingForMigration" }),
      want: ["waiting", "WaitingForMigration"],
    },
  ])("$name", ({ status, want }) => {
    const plug = plugNamed(toUnit("ns/a", { vm: aVm(), vmi: aVmi(status) }), "blue");
    expect([plug?.tone, plug?.state]).toEqual(want);
  });

  test("of a stopped VM takes effect at its next start", () => {
    const unit = toUnit("ns/a", { vm: aVm({ status: { printableStatus: "Stopped" } }) });
    expect(unit).toMatchObject({ tone: "stopped", state: "Stopped", isLive: false, memory: "1Gi" });
    expect(unit.plugs.map(({ tone }) => tone)).toEqual(["off", "off"]);
    expect(unit.sockets).toBeUndefined();
  });

  test("contains the state of all layers", () => {
    const status = nic(
      { phase: "Ready", since: "2026-01-01T00:00:00Z" },
      {
        mac: "02:00:00:00:00:02",
        ipAddresses: ["10.0.0.1"],
        interfaceName: "eth1",
        pciAddress: "0000:01:00.0",
      },
    );
    const unit = toUnit("ns/a", {
      vm: aVm(),
      vmi: aVmi({ ...status, pciePorts: { total: 32, free: 30 } }),
    });
    expect(unit).toMatchObject({ node: "one", sockets: { total: 32, free: 30 } });
    expect(plugNamed(unit, "blue")).toMatchObject({
      network: "ns/blue",
      mac: "02:00:00:00:00:02",
      addresses: ["10.0.0.1"],
      guestName: "eth1",
      pciAddress: "0000:01:00.0",
      binding: "bridge",
      isFixed: false,
    });
    expect(plugNamed(unit, "default")).toMatchObject({
      network: "pod",
      binding: "masquerade",
      isFixed: true,
    });
  });

  test("that was removed from the specification stays until it is unplugged", () => {
    const interfaces = [
      { name: "old", hotplug: { type: "Unplug", phase: "Detaching" } },
      { interfaceName: "lo" },
    ];
    const unit = toUnit("ns/a", { vm: aVm(), vmi: aVmi({ interfaces }) });
    expect(unit.plugs.map(({ name }) => name)).toEqual(["default", "blue", "old"]);
    expect(plugNamed(unit, "old")?.state).toBe("waiting for the guest to detach");
  });
});

test("a unit has notices for a problem and a required restart", () => {
  const conditions = [
    { type: "RestartRequired", status: "True", message: "cores" },
    { type: "Failure", status: "False", message: "not now" },
  ];
  const blockedReason = {
    reason: "LauncherUnreachable",
    message: "silent",
    attempts: 1,
    since: "",
  };
  const vm = aVm({ status: { printableStatus: "Running", conditions } });
  const unit = toUnit("ns/a", { vm, vmi: aVmi({ blockedReason }) });
  expect(unit.tone).toBe("failing");
  expect(unit.notices.map(({ title, tone }) => [title, tone])).toEqual([
    ["LauncherUnreachable", "failing"],
    ["restart needed", "waiting"],
  ]);
});

test("computes only units with changed objects again", () => {
  const units = new UnitCache();
  const vms = new Map([
    ["ns/b", aVm()],
    ["ns/a", aVm()],
  ]);
  const first = units.list(vms, new Map());
  const second = units.list(new Map([...vms, ["ns/a", aVm()]]), new Map());
  expect(first.map(({ key }) => key)).toEqual(["ns/a", "ns/b"]);
  expect(second[1]).toBe(first[1]);
  expect(second[0]).not.toBe(first[0]);
});

describe("jacks", () => {
  const unit = toUnit("ns/a", { vm: aVm(), vmi: aVmi() });
  const nad = (config: string, more: object = {}) => ({
    apiVersion: "v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { namespace: "ns", name: "blue" },
    spec: { config },
    ...more,
  });

  test.each([
    { name: "of a plugin", config: '{"type":"bridge"}', want: "bridge" },
    { name: "of a list of plugins", config: '{"plugins":[{"type":"macvlan"}]}', want: "macvlan" },
    { name: "of a network whose configuration is not JSON", config: "{", want: "" },
    { name: "of a network with an unrelated configuration", config: "[1]", want: "" },
    { name: "of a hostile type", config: '{"type":{"a":1}}', want: "" },
    { name: "of a network with a hostile plugin list", config: '{"plugins":"x"}', want: "" },
  ])("$name", ({ config, want }) => {
    expect(listJacks(new Map([["ns/blue", nad(config)]]), [unit])[1]).toMatchObject({
      type: want,
      plugs: 1,
      problems: [],
    });
  });

  test("lists the pod network first, and marks undefined networks", () => {
    const [pod, blue] = listJacks(new Map(), [unit]);
    expect(pod).toMatchObject({ key: "pod", plugs: 1, problems: [] });
    expect(blue).toMatchObject({
      key: "ns/blue",
      problems: ["no network of this name is defined"],
    });
  });

  test("lists problems on nodes", () => {
    const problems = [{ node: "one", reason: "X", message: "no link", generation: 1 }];
    const jacks = listJacks(new Map([["ns/blue", nad("{}", { status: { problems } })]]), []);
    expect(jacks[1]?.problems).toEqual(["one: no link"]);
  });
});

describe("a filter", () => {
  const failing = aVmi(nic({ phase: "Pending", reason: "CniFailed" }));
  const units = [toUnit("ns/a", { vm: aVm(), vmi: failing }), toUnit("other/b", { vm: aVm() })];

  test.each<{ name: string; filter: Partial<Filter>; want: readonly string[] }>([
    { name: "that is empty matches all VMs", filter: {}, want: ["ns/a", "other/b"] },
    { name: "matches words from any field", filter: { text: "A one 02:00" }, want: ["ns/a"] },
    { name: "matches no VM if a word is not found", filter: { text: "a nowhere" }, want: [] },
    { name: "matches a namespace", filter: { namespace: "other" }, want: ["other/b"] },
    { name: "matches a node", filter: { node: "one" }, want: ["ns/a"] },
    { name: "matches a network", filter: { network: "pod" }, want: ["ns/a", "other/b"] },
    { name: "matches a reason", filter: { reason: "CniFailed" }, want: ["ns/a"] },
    { name: "does not match another reason", filter: { reason: "Other" }, want: [] },
    { name: "matches any failure", filter: { reason: "any" }, want: ["ns/a"] },
  ])("$name", ({ filter, want }) => {
    expect(filterUnits(units, { ...NO_FILTER, ...filter }).map(({ key }) => key)).toEqual(want);
  });

  test("offers the existing values", () => {
    expect(listChoices(units)).toEqual({
      namespaces: ["ns", "other"],
      nodes: ["one"],
      reasons: ["CniFailed"],
    });
  });
});

test("records each step once with its time", () => {
  const seen = (status: object) => [toUnit("ns/a", { vm: aVm(), vmi: aVmi(status) })];
  const told = [nic({ phase: "Pending" }), nic({ phase: "Pending" }), nic({ phase: "Ready" })];
  const steps = told.reduce(
    (known: Steps, status, index) =>
      withSteps(known, seen(status), { atMs: index, isList: index === 0 }),
    new Map(),
  );
  expect(steps.get("ns/a/blue")).toEqual([
    { phase: "Pending", atMs: 0, isOld: true },
    { phase: "Ready", atMs: 2 },
  ]);
  expect(withSteps(steps, seen(nic({ phase: "Ready" })), { atMs: 9, isList: false })).toBe(steps);
});
