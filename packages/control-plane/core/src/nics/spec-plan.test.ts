// SPDX-License-Identifier: Apache-2.0
// A NIC that takes over what another one has comes after it, and one that changes its network keeps its device; the property is in converge.test.ts.
import type { Iface, Network, VirtualMachineInstance, VmiSpec } from "@patchbay/api";
import { validateVmiSpec } from "@patchbay/api/validate";
import { aVm, aVmi, type NicSketch } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { nicsOf, withNics } from "./nics.ts";
import { nicsAfter } from "../testing/vmi-nics.ts";

const MAC = "02:00:00:00:00:01";

/** The VMI after one step of its VM. */
function step(vmi: VirtualMachineInstance, nics: readonly NicSketch[]): VirtualMachineInstance {
  const to = nicsAfter(aVm({ nics }).spec.template.spec, vmi);
  return { ...vmi, spec: withNics(vmi.spec, to.networks, to.ifaces) };
}

function printNics({ spec }: VirtualMachineInstance): readonly string[] {
  return (spec.domain.devices?.interfaces ?? []).map(({ name, state }) =>
    `${name} ${state ?? ""}`.trim(),
  );
}

function printNetworks({ spec }: VirtualMachineInstance): readonly string[] {
  return (spec.networks ?? []).map(({ name, multus }) => `${name} ${multus?.networkName ?? "pod"}`);
}

function running(nics: readonly NicSketch[], left: readonly string[]): VirtualMachineInstance {
  return aVmi({ nics, status: { interfaces: left.map((name) => ({ name })) } });
}

test("a renamed iface is unplugged first and then plugged", () => {
  const renamed = [{ name: "new", mac: MAC }];
  const requested = step(running([{ name: "old", mac: MAC }], ["old"]), renamed);
  expect(printNics(requested)).toEqual(["old absent"]);
  expect(validateVmiSpec(requested.spec, "spec")).toEqual([]);
  expect(printNics(step(requested, renamed))).toEqual(["old absent"]);
  const deleted = { ...requested, status: { interfaces: [] } };
  expect(printNics(step(deleted, renamed))).toEqual(["new"]);
});

test("waits for nothing if no value is reused", () => {
  const wanted = [
    { name: "other", mac: "02:00:00:00:00:02" },
    { name: "new", mac: MAC },
  ];
  expect(printNics(step(running([{ name: "old", mac: MAC }], ["old"]), wanted))).toEqual([
    "old absent",
    "other",
  ]);
});

test("does not wait for the same MAC on another network", () => {
  const wanted = [{ name: "new", mac: MAC, network: "red" }];
  expect(printNics(step(running([{ name: "old", mac: MAC }], ["old"]), wanted))).toEqual([
    "old absent",
    "new",
  ]);
});

test("waits for a MAC that is released only at the next start", () => {
  const wanted = [
    { name: "c", mac: MAC },
    { name: "a", mac: "02:00:00:00:00:02" },
    { name: "b", mac: "02:00:00:00:00:03" },
  ];
  const requested = step(running([{ name: "c", mac: "02:00:00:00:00:02" }], ["c"]), wanted);
  expect(printNics(requested)).toEqual(["c", "b"]);
  expect(validateVmiSpec(requested.spec, "spec")).toEqual([]);
});

test("treats an interface's previous network as free", () => {
  const wanted = [
    { name: "c", mac: MAC, network: "red" },
    { name: "a", mac: MAC, network: "blue" },
  ];
  const next = step(running([{ name: "c", mac: MAC }], ["c"]), wanted);
  expect(printNics(next)).toEqual(["c", "a"]);
  expect(printNetworks(next)).toEqual(["c red", "a blue"]);
});

describe("a NIC whose network changes", () => {
  const OTHER = "02:00:00:00:00:02";
  const before = [
    { name: "a", mac: MAC },
    { name: "b", mac: OTHER, network: "red" },
  ];
  test.each<{ name: string; from: readonly NicSketch[]; to: readonly NicSketch[]; want: string[] }>(
    [
      {
        name: "is swapped to the new network",
        from: before,
        to: [{ name: "a", mac: MAC, network: "green" }, before[1] ?? { name: "b" }],
        want: ["a green", "b red"],
      },
      {
        name: "exchanges networks with another NIC",
        from: before,
        to: [
          { name: "a", mac: MAC, network: "red" },
          { name: "b", mac: OTHER },
        ],
        want: ["a red", "b blue"],
      },
      {
        name: "exchanges networks with another NIC with the same MAC",
        from: [
          { name: "a", mac: MAC },
          { name: "b", mac: MAC, network: "red" },
        ],
        to: [
          { name: "a", mac: MAC, network: "red" },
          { name: "b", mac: MAC },
        ],
        want: ["a red", "b blue"],
      },
      {
        name: "waits while a NIC with the same MAC is unplugged from that network",
        from: before.map((nic) => ({ ...nic, mac: MAC })),
        to: [{ name: "a", mac: MAC, network: "red" }],
        want: ["a blue", "b red"],
      },
      {
        name: "stays during its unplug, and is plugged on the new network afterwards",
        from: [{ name: "a", mac: MAC, state: "absent" }],
        to: [{ name: "a", mac: MAC, network: "red" }],
        want: ["a blue"],
      },
      {
        name: "stays if it is to be unplugged",
        from: [{ name: "a", mac: MAC }],
        to: [{ name: "a", mac: MAC, network: "red", state: "absent" }],
        want: ["a blue"],
      },
    ],
  )("$name", ({ from, to, want }) => {
    const names = from.map(({ name }) => name);
    expect(printNetworks(step(running(from, names), to))).toEqual(want);
  });

  test("adopts network settings of the new spec, and retains its other values until a restart", () => {
    const vmi = running([{ name: "a", mac: MAC }], ["a"]);
    const { spec } = aVm({ nics: [{ name: "a", mac: OTHER, network: "red" }] }).spec.template;
    const [iface] = spec.domain.devices?.interfaces ?? [];
    const requested = { name: "a", ...iface, ips: ["10.0.0.1/24"], model: "e1000" };
    const to = nicsAfter(withNics(spec, spec.networks ?? [], [requested]), vmi);
    expect(to.ifaces).toEqual([{ name: "a", bridge: {}, macAddress: MAC, ips: ["10.0.0.1/24"] }]);
    const back = { ...vmi, spec: withNics(vmi.spec, to.networks, to.ifaces) };
    const { ifaces } = nicsAfter(aVm({ nics: [{ name: "a", mac: MAC }] }).spec.template.spec, back);
    expect(ifaces).toEqual([{ name: "a", bridge: {}, macAddress: MAC }]);
  });

  test.each<{ name: string; network: Network; iface: Iface }>([
    {
      name: "to the pod network",
      network: { name: "a", pod: {} },
      iface: { name: "a", bridge: {} },
    },
    {
      name: "to another default network",
      network: { name: "a", multus: { networkName: "red", default: true } },
      iface: { name: "a", bridge: {} },
    },
    {
      name: "with an unsupported binding",
      network: { name: "a", multus: { networkName: "red" } },
      iface: { name: "a", sriov: {} },
    },
  ])("does not swap $name while the guest runs", ({ network, iface }) => {
    const vmi = running([{ name: "a" }], ["a"]);
    expect(nicsAfter(withNics(vmi.spec, [network], [iface]), vmi)).toEqual(nicsOf(vmi.spec));
  });
});

test("does not check changes that admission rejects with a reason", () => {
  const wanted = [
    { name: "stays", mac: MAC },
    { name: "twin", mac: MAC },
  ];
  const vmi = running([{ name: "stays", mac: MAC }, { name: "old" }], ["old"]);
  expect(printNics(step(vmi, wanted))).toEqual(["stays", "old absent", "twin"]);
});

/** A VMI on the pod network whose iface has that state. */
function onPodNetwork(state?: string): VirtualMachineInstance {
  const vmi = aVmi();
  const iface = { name: "default", bridge: {}, ...(state === undefined ? {} : { state }) };
  return { ...vmi, spec: withNics(vmi.spec, [{ name: "default", pod: {} }], [iface]) };
}

function stateAfter(template: VmiSpec, state?: string): string | undefined {
  return nicsAfter(template, onPodNetwork(state)).ifaces[0]?.state;
}

test("copies only the link state of the default network's iface", () => {
  expect(stateAfter(onPodNetwork("down").spec)).toBe("down");
  expect(stateAfter(onPodNetwork("up").spec, "down")).toBe("up");
  expect(stateAfter(onPodNetwork().spec, "down")).toBeUndefined();
  expect(stateAfter(onPodNetwork("absent").spec, "up")).toBe("up");
  expect(stateAfter(aVmi().spec, "up")).toBe("up");
});
