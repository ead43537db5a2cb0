// SPDX-License-Identifier: Apache-2.0
// MACs that networks assign: recorded, requested again, and reported when they change.
import type {
  BindingRegistry,
  Iface,
  Network,
  VirtualMachine,
  VmiStatus,
  VmStatus,
} from "@patchbay/api";
import { describe, expect, test } from "vitest";
import {
  findMacChanges,
  findPodNetworkMac,
  findUnmetMac,
  readRetainedMacs,
  requestMac,
} from "./mac.ts";
import { aVm, aVmi } from "@patchbay/support";
import { vmiOf } from "../vm/vm.ts";
import { ifacesOf, withNics } from "./nics.ts";
import { listRestartRequiredFields } from "../status/restart-required.ts";
import { buildVmStatus } from "../status/vm.ts";

const [FIRST, SECOND] = ["02:00:00:00:00:01", "02:00:00:00:00:02"];
const POD: Network = { name: "default", pod: {} };
const BLUE: Network = { name: "default", multus: { networkName: "blue" } };
const BRIDGE: Iface = { name: "default", bridge: {} };
const MASQUERADE: Iface = { name: "default", masquerade: {} };
const RETAINED: VmStatus = { macAddresses: [{ name: "default", macAddress: FIRST }] };
const OWN: Network = { name: "default", multus: { networkName: "blue", default: true } };
const ON_OWN = { name: "default", networkName: "default/blue", macAddress: FIRST };
const BINDINGS: BindingRegistry = {
  own: { domainAttachmentType: "managedTap" },
  lone: { domainAttachmentType: "tap" },
  socket: { domainAttachmentType: "vhostuser" },
};

function vmOf(iface: Iface, status: VmStatus = {}, network = POD): VirtualMachine {
  const vm = aVm();
  const spec = withNics(vm.spec.template.spec, [network], [iface]);
  return { ...vm, status, spec: { ...vm.spec, template: { spec } } };
}

function reported(mac: string): VmiStatus {
  return { phase: "Running", interfaces: [{ name: "default", mac }] };
}

function retainedAfter(vm: VirtualMachine, status?: VmiStatus): VmStatus["macAddresses"] {
  const vmi = status === undefined ? undefined : aVmi({ ownedByVm: true, status });
  const situation = {
    vm,
    vmi,
    startProblems: [],
    hasNameConflict: false,
    isStaged: false,
    waitsForBinding: false,
    failures: [],
  };
  return buildVmStatus({ ...situation, bindings: BINDINGS }, "2026-01-01T00:00:00Z").macAddresses;
}

describe("the VM's status retains", () => {
  const entry = (macAddress: string) => [{ name: "default", macAddress }];

  test.each<{
    name: string;
    vm: VirtualMachine;
    vmi?: VmiStatus;
    want: VmStatus["macAddresses"];
  }>([
    { name: "what the guest has", vm: vmOf(BRIDGE), vmi: reported(FIRST), want: entry(FIRST) },
    {
      name: "it in one form",
      vm: vmOf(BRIDGE),
      vmi: reported("02-00-00-00-00-0A"),
      want: entry("02:00:00:00:00:0a"),
    },
    {
      name: "what the guest has now rather than what an earlier one had",
      vm: vmOf(BRIDGE, RETAINED),
      vmi: reported(SECOND),
      want: entry(SECOND),
    },
    { name: "it without a guest", vm: vmOf(BRIDGE, RETAINED), want: entry(FIRST) },
    {
      name: "it while the next guest has none yet",
      vm: vmOf(BRIDGE, RETAINED),
      vmi: { phase: "Scheduled" },
      want: entry(FIRST),
    },
    {
      name: "it behind a masquerade",
      vm: vmOf({ name: "default", masquerade: {} }),
      vmi: reported(FIRST),
      want: entry(FIRST),
    },
    {
      name: "it where a plugin prepares the network",
      vm: vmOf({ name: "default", binding: { name: "own" } }),
      vmi: reported(FIRST),
      want: entry(FIRST),
    },
    {
      name: "nothing where a plugin creates the tap, which has another MAC",
      vm: vmOf({ name: "default", binding: { name: "lone" } }),
      vmi: reported(FIRST),
      want: undefined,
    },
    {
      name: "nothing that no NIC can have",
      vm: vmOf(BRIDGE, RETAINED),
      vmi: reported("ff:ff:ff:ff:ff:ff"),
      want: entry(FIRST),
    },
    {
      name: "nothing of a secondary network that is not attached",
      vm: vmOf({ ...BRIDGE, macAddress: FIRST }, {}, BLUE),
      vmi: reported(FIRST),
      want: undefined,
    },
    {
      name: "nothing of an iface that is no longer declared",
      vm: vmOf({ name: "other", bridge: {} }, RETAINED, { name: "other", pod: {} }),
      want: undefined,
    },
    {
      name: "nothing of one that is leaving",
      vm: vmOf({ ...BRIDGE, state: "absent" }, RETAINED),
      want: undefined,
    },
  ])("$name", ({ vm, vmi, want }) => {
    expect(retainedAfter(vm, vmi)).toEqual(want);
  });
});

describe("the VM's status records of a secondary network", () => {
  const ready = (mac: string, networkName = "default/blue"): VmiStatus => ({
    phase: "Running",
    interfaces: [{ name: "default", mac, hotplug: { type: "Plug", phase: "Ready" } }],
    attachments: [
      { name: "default", networkName, podInterfaceName: "pod1", state: "Attached", mac },
    ],
  });
  const recorded = (macAddress: string, networkName = "default/blue") => [
    { name: "default", networkName, macAddress },
  ];
  const before: VmStatus = { macAddresses: recorded(FIRST) };

  test.each<{
    name: string;
    vm: VirtualMachine;
    vmi?: VmiStatus;
    want: VmStatus["macAddresses"];
  }>([
    {
      name: "the MAC of the guest's NIC",
      vm: vmOf(BRIDGE, {}, BLUE),
      vmi: ready(FIRST),
      want: recorded(FIRST),
    },
    { name: "the last MAC without a guest", vm: vmOf(BRIDGE, before, BLUE), want: recorded(FIRST) },
    {
      name: "the new MAC that the network assigned",
      vm: vmOf(BRIDGE, before, BLUE),
      vmi: ready(SECOND),
      want: recorded(SECOND),
    },
    {
      name: "nothing of a NIC that is not ready",
      vm: vmOf(BRIDGE, {}, BLUE),
      vmi: reported(FIRST),
      want: undefined,
    },
    {
      name: "a MAC that the template names",
      vm: vmOf({ ...BRIDGE, macAddress: FIRST }, {}, BLUE),
      vmi: ready(FIRST),
      want: recorded(FIRST),
    },
    {
      name: "nothing of another network",
      vm: vmOf(BRIDGE, { macAddresses: recorded(FIRST, "default/red") }, BLUE),
      vmi: ready(FIRST, "default/red"),
      want: undefined,
    },
    {
      name: "nothing of a MAC that Patchbay chose",
      vm: vmOf({ name: "default", binding: { name: "socket" } }, {}, BLUE),
      vmi: ready(FIRST),
      want: undefined,
    },
  ])("$name", ({ vm, vmi, want }) => {
    expect(retainedAfter(vm, vmi)).toEqual(want);
  });

  test("and the next VMI requests it again from the network", () => {
    const vmi = vmiOf(vmOf(BRIDGE, before, BLUE), BINDINGS);
    expect(ifacesOf(vmi.spec)[0]).toEqual(BRIDGE);
    const retained = readRetainedMacs(vmi);
    expect(retained).toEqual(recorded(FIRST));
    expect(requestMac(BRIDGE, vmi, { networkName: "default/blue", retained })).toEqual({
      mac: FIRST,
      "io.patchbay.kept-mac": true,
    });
    expect(requestMac(BRIDGE, vmi, { networkName: "default/red", retained })).toEqual({});
  });
});

describe("the next VMI on a pod network", () => {
  const vm = vmOf(BRIDGE, RETAINED);

  test("requests the MAC from a network that passes only assigned MACs", () => {
    const vmi = vmiOf(vm, BINDINGS);
    expect(ifacesOf(vmi.spec)[0]).toEqual(BRIDGE);
    expect(findPodNetworkMac(vmi)).toBe(FIRST);
  });

  test("has the MAC in its specification if the network passes any MAC", () => {
    const vmi = vmiOf(vm, BINDINGS, { passesAnyMac: true });
    expect(ifacesOf(vmi.spec)[0]).toEqual({ ...BRIDGE, macAddress: FIRST });
    expect(readRetainedMacs(vmi)).toEqual([]);
  });

  test("still requests the MAC of a NetworkAttachmentDefinition", () => {
    const status = { macAddresses: [ON_OWN] };
    const vmi = vmiOf(vmOf(BRIDGE, status, OWN), BINDINGS, { passesAnyMac: true });
    expect(ifacesOf(vmi.spec)[0]).toEqual(BRIDGE);
    expect(readRetainedMacs(vmi)).toEqual([ON_OWN]);
  });
});

describe("a request for a MAC", () => {
  const request = (iface: Iface, status: VmiStatus = {}) =>
    requestMac(iface, aVmi({ status }), { networkName: "ns/red", retained: [] });

  test("names the specification's MAC", () => {
    expect(request({ ...BRIDGE, macAddress: "02-00-00-00-00-0A" })).toEqual({
      mac: "02-00-00-00-00-0A",
    });
  });

  test("names no MAC at the first plug", () => {
    expect(request(BRIDGE)).toEqual({});
  });

  test("names the running NIC's MAC during a network swap", () => {
    const podInterfaceName = "pod1";
    const attached = { name: "default", networkName: "ns/blue", podInterfaceName } as const;
    const status: VmiStatus = {
      interfaces: [{ name: "default", mac: FIRST }],
      attachments: [{ ...attached, state: "Attached" }],
    };
    expect(request(BRIDGE, status)).toEqual({ mac: FIRST });
    expect(request(BRIDGE, { ...status, interfaces: [{ name: "default", mac: "x" }] })).toEqual({});
  });

  test.each([
    { name: "the same MAC in another notation", mac: "02-00-00-00-00-01", assigned: FIRST },
    { name: "an unknown MAC", mac: SECOND, assigned: undefined },
    { name: "another MAC", mac: SECOND, assigned: FIRST, want: SECOND },
    { name: "another MAC than preferred", mac: SECOND, assigned: FIRST, isPreferred: true },
  ])("of which the network assigns $name", ({ mac, assigned, isPreferred, want }) => {
    const preference = isPreferred === true ? { "io.patchbay.kept-mac": true } : {};
    expect(findUnmetMac({ name: "blue", mac, ...preference }, assigned)).toBe(want);
    expect(findUnmetMac(undefined, assigned)).toBeUndefined();
  });
});

test.each<{ name: string; vm: VirtualMachine; want: string | undefined }>([
  { name: "the last guest's", vm: vmOf(BRIDGE, RETAINED), want: FIRST },
  {
    name: "the specification's",
    vm: vmOf({ ...BRIDGE, macAddress: SECOND }, RETAINED),
    want: SECOND,
  },
  { name: "none at the first start", vm: vmOf(BRIDGE), want: undefined },
  {
    name: "none for a masquerade, whose guest has a MAC of its own",
    vm: vmOf({ name: "default", masquerade: {} }, RETAINED),
    want: undefined,
  },
  {
    name: "none without a NIC on the pod network",
    vm: vmOf(BRIDGE, RETAINED, BLUE),
    want: undefined,
  },
  {
    name: "the last guest's on a Multus network in place of the pod network",
    vm: vmOf(BRIDGE, { macAddresses: [ON_OWN] }, OWN),
    want: FIRST,
  },
  {
    name: "none that the pod network assigned, on a Multus network in its place",
    vm: vmOf(BRIDGE, RETAINED, OWN),
    want: undefined,
  },
])("the MAC to request from the pod network is $name", ({ vm, want }) => {
  expect(findPodNetworkMac(vmiOf(vm, BINDINGS))).toBe(want);
});

describe("a changed MAC", () => {
  const onPod = (mac: string, state: "Attached" | "Requested" = "Attached") =>
    [{ name: "default", podInterfaceName: "eth0", state, mac }] as const;
  const onBlueNic = [
    {
      name: "blue",
      networkName: "default/blue",
      podInterfaceName: "pod1",
      state: "Attached",
      mac: SECOND,
    },
  ] as const;
  const vmi = vmiOf(vmOf(BRIDGE, RETAINED), BINDINGS);
  const element = { name: "blue", interface: "pod1", mac: FIRST };

  test("is reported once, when the network assigns it", () => {
    const [message, ...others] = findMacChanges(vmi, onPod(SECOND), []);
    expect(message).toMatch(`interface default now has MAC ${SECOND}`);
    expect(message).toMatch(`it had ${FIRST} before`);
    expect(others).toEqual([]);
    const later = { ...vmi, status: { attachments: [...onPod(SECOND)] } };
    expect(findMacChanges(later, onPod(SECOND), [])).toEqual([]);
  });

  test("is reported for a preference that a secondary network did not meet", () => {
    const preferred = { ...element, "io.patchbay.kept-mac": true };
    expect(findMacChanges(vmi, onBlueNic, [preferred])).toHaveLength(1);
    expect(findMacChanges(vmi, onBlueNic, [element])).toEqual([]);
  });

  test("is not reported for the same MAC, or before the network has attached", () => {
    expect(findMacChanges(vmi, onPod(FIRST), [])).toEqual([]);
    expect(findMacChanges(vmi, onPod(SECOND, "Requested"), [])).toEqual([]);
    expect(findMacChanges(vmi, onPod("x"), [])).toEqual([]);
  });
});

describe("the next VMI gets", () => {
  test.each<{ name: string; vm: VirtualMachine; want: string | undefined }>([
    {
      name: "none for a NIC whose network assigns one",
      vm: vmOf(BRIDGE, RETAINED),
      want: undefined,
    },
    { name: "the retained MAC", vm: vmOf(MASQUERADE, RETAINED), want: FIRST },
    {
      name: "it in place of an empty one",
      vm: vmOf({ ...MASQUERADE, macAddress: "" }, RETAINED),
      want: FIRST,
    },
    {
      name: "what the template names instead",
      vm: vmOf({ ...MASQUERADE, macAddress: SECOND }, RETAINED),
      want: SECOND,
    },
    { name: "none at the first start", vm: vmOf(MASQUERADE), want: undefined },
    {
      name: "none where the tap has its own",
      vm: vmOf({ name: "default", binding: { name: "lone" } }, RETAINED),
      want: undefined,
    },
  ])("$name", ({ vm, want }) => {
    expect(ifacesOf(vmiOf(vm, BINDINGS).spec)[0]?.macAddress).toBe(want);
  });
});

test.each<{ name: string; iface: Iface; want: readonly string[] }>([
  { name: "no restart is needed for a MAC that only the VMI has", iface: MASQUERADE, want: [] },
  {
    name: "one is needed for another that the template names",
    iface: { ...MASQUERADE, macAddress: SECOND },
    want: ["spec.template.spec.domain.devices.interfaces[0].macAddress"],
  },
])("$name", ({ iface, want }) => {
  const vmi = vmiOf(vmOf(MASQUERADE, RETAINED), BINDINGS);
  expect(
    listRestartRequiredFields(vmOf(iface, RETAINED), vmi, { bindings: BINDINGS, isStaged: false }),
  ).toEqual(want);
});
