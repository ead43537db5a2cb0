// SPDX-License-Identifier: Apache-2.0
// Which MACs a VM's guests keep on the pod's network.
import type {
  BindingRegistry,
  Iface,
  Network,
  VirtualMachine,
  VmiStatus,
  VmStatus,
} from "@patchbay/api";
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { vmiOf } from "../plan/vm/vm.ts";
import { ifacesOf, withNics } from "../spec/nics.ts";
import { restartRequiredFields } from "../status/restart-required.ts";
import { vmStatus } from "../status/vm.ts";

const [FIRST, SECOND] = ["02:00:00:00:00:01", "02:00:00:00:00:02"];
const POD: Network = { name: "default", pod: {} };
const BLUE: Network = { name: "default", multus: { networkName: "blue" } };
const BRIDGE: Iface = { name: "default", bridge: {} };
const KEPT: VmStatus = { macAddresses: [{ name: "default", macAddress: FIRST }] };
const BINDINGS: BindingRegistry = {
  own: { domainAttachmentType: "managedTap" },
  lone: { domainAttachmentType: "tap" },
};

function vmOf(iface: Iface, status: VmStatus = {}, network = POD): VirtualMachine {
  const vm = aVm();
  const spec = withNics(vm.spec.template.spec, [network], [iface]);
  return { ...vm, status, spec: { ...vm.spec, template: { spec } } };
}

function reported(mac: string): VmiStatus {
  return { phase: "Running", interfaces: [{ name: "default", mac }] };
}

function keptAfter(vm: VirtualMachine, status?: VmiStatus): VmStatus["macAddresses"] {
  const vmi = status === undefined ? undefined : aVmi({ ownedByVm: true, status });
  const situation = {
    vm,
    vmi,
    startProblems: [],
    isNameTaken: false,
    isStaged: false,
    waitsForBinding: false,
    failures: [],
  };
  return vmStatus({ ...situation, bindings: BINDINGS }, "2026-01-01T00:00:00Z").macAddresses;
}

describe("the VM's status keeps", () => {
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
      vm: vmOf(BRIDGE, KEPT),
      vmi: reported(SECOND),
      want: entry(SECOND),
    },
    { name: "it without a guest", vm: vmOf(BRIDGE, KEPT), want: entry(FIRST) },
    {
      name: "it while the next guest has none yet",
      vm: vmOf(BRIDGE, KEPT),
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
      name: "nothing where a plugin makes the tap, by which the MAC is fixed",
      vm: vmOf({ name: "default", binding: { name: "lone" } }),
      vmi: reported(FIRST),
      want: undefined,
    },
    {
      name: "nothing that no NIC can have",
      vm: vmOf(BRIDGE, KEPT),
      vmi: reported("ff:ff:ff:ff:ff:ff"),
      want: entry(FIRST),
    },
    {
      name: "nothing of a secondary network: the template has it",
      vm: vmOf({ ...BRIDGE, macAddress: FIRST }, {}, BLUE),
      vmi: reported(FIRST),
      want: undefined,
    },
    {
      name: "nothing of an iface that is no longer declared",
      vm: vmOf({ name: "other", bridge: {} }, KEPT, { name: "other", pod: {} }),
      want: undefined,
    },
    {
      name: "nothing of one that is leaving",
      vm: vmOf({ ...BRIDGE, state: "absent" }, KEPT),
      want: undefined,
    },
  ])("$name", ({ vm, vmi, want }) => {
    expect(keptAfter(vm, vmi)).toEqual(want);
  });
});

describe("the next VMI gets", () => {
  test.each<{ name: string; vm: VirtualMachine; want: string | undefined }>([
    { name: "the MAC that was kept", vm: vmOf(BRIDGE, KEPT), want: FIRST },
    {
      name: "it in place of an empty one",
      vm: vmOf({ ...BRIDGE, macAddress: "" }, KEPT),
      want: FIRST,
    },
    {
      name: "what the template names instead",
      vm: vmOf({ ...BRIDGE, macAddress: SECOND }, KEPT),
      want: SECOND,
    },
    { name: "none at the first start", vm: vmOf(BRIDGE), want: undefined },
    {
      name: "none where the tap has its own",
      vm: vmOf({ name: "default", binding: { name: "lone" } }, KEPT),
      want: undefined,
    },
  ])("$name", ({ vm, want }) => {
    expect(ifacesOf(vmiOf(vm, BINDINGS).spec)[0]?.macAddress).toBe(want);
  });
});

test.each<{ name: string; iface: Iface; want: readonly string[] }>([
  { name: "no restart is needed for a MAC that only the VMI has", iface: BRIDGE, want: [] },
  {
    name: "one is needed for another that the template names",
    iface: { ...BRIDGE, macAddress: SECOND },
    want: ["spec.template.spec.domain.devices.interfaces[0].macAddress"],
  },
])("$name", ({ iface, want }) => {
  const vmi = vmiOf(vmOf(BRIDGE, KEPT), BINDINGS);
  expect(
    restartRequiredFields(vmOf(iface, KEPT), vmi, { bindings: BINDINGS, isStaged: false }),
  ).toEqual(want);
});
