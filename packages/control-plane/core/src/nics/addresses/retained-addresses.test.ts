// SPDX-License-Identifier: Apache-2.0
// Which addresses a VM's NICs keep, and which NICs of its next launcher prefer them.
import {
  names,
  type Attachment,
  type Iface,
  type Network,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiStatus,
  type VmStatus,
} from "@patchbay/api";
import { parseNetworks, type NetworkSelection } from "@patchbay/api/annotations";
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { buildPodAnnotations } from "../../vm/pod/inherited-fields.ts";
import { planPodNetworks } from "../../vm/pod/pod-networks.ts";
import { vmiOf } from "../../vm/vm.ts";
import { withNics } from "../nics.ts";
import { buildVmStatus } from "../../status/vm.ts";
import type { Conditions } from "../../status/conditions.ts";
import { ADDRESS_CHANGED, addressesCondition, findNewAddressChange } from "./retained-addresses.ts";

const BLUE: Network = { name: "blue1", multus: { networkName: "blue" } };
const RED: Network = { name: "blue1", multus: { networkName: "others/red" } };
const NIC: Iface = { name: "blue1", bridge: {}, macAddress: "02:00:00:00:00:01" };
const ENTRY = { name: "blue1", networkName: "default/blue", ips: ["10.0.0.5", "fd00::5"] };
const RETAINED: VmStatus = { ipAddresses: [ENTRY] };

function vmOf(iface: Iface = NIC, network = BLUE, status: VmStatus = {}): VirtualMachine {
  const vm = aVm();
  const spec = withNics(vm.spec.template.spec, [network], [iface]);
  return { ...vm, status, spec: { ...vm.spec, template: { ...vm.spec.template, spec } } };
}

function has(fields: Partial<Attachment>, phase: "Ready" | "Wiring" = "Ready"): VmiStatus {
  const hotplug = { type: "Plug", phase, since: "2026-01-01T00:00:00Z" } as const;
  const attachment: Attachment = {
    name: "blue1",
    podInterfaceName: "pod1",
    networkName: "default/blue",
    state: "Attached",
    ...fields,
  };
  return { phase: "Running", interfaces: [{ name: "blue1", hotplug }], attachments: [attachment] };
}

function retainedAfter(vm: VirtualMachine, status?: VmiStatus): VmStatus["ipAddresses"] {
  const vmi = status === undefined ? undefined : aVmi({ ownedByVm: true, status });
  const situation = {
    vm,
    vmi,
    startProblems: [],
    hasNameConflict: false,
    failures: [],
    bindings: {},
    isStaged: false,
    waitsForBinding: false,
  };
  return buildVmStatus(situation, "2026-01-01T00:00:00Z").ipAddresses;
}

describe("the VM's status retains", () => {
  const other = [{ ...ENTRY, ips: ["10.0.0.6"] }];

  test.each<{ name: string; vm: VirtualMachine; vmi?: VmiStatus; want: VmStatus["ipAddresses"] }>([
    {
      name: "the NIC's addresses in normalized form",
      vm: vmOf(),
      vmi: has({ ips: ["10.0.0.5", "FD00:0::5"] }),
      want: [ENTRY],
    },
    {
      name: "the NIC's current addresses rather than its previous ones",
      vm: vmOf(NIC, BLUE, RETAINED),
      vmi: has({ ips: ["10.0.0.6"] }),
      want: other,
    },
    { name: "the addresses without a guest", vm: vmOf(NIC, BLUE, RETAINED), want: [ENTRY] },
    {
      name: "the addresses until the next NIC exists",
      vm: vmOf(NIC, BLUE, RETAINED),
      vmi: has({ ips: ["10.0.0.6"] }, "Wiring"),
      want: [ENTRY],
    },
    {
      name: "no invalid addresses",
      vm: vmOf(),
      vmi: has({ ips: ["", "x"] }),
      want: undefined,
    },
    {
      name: "no addresses of a network that no longer assigns any",
      vm: vmOf(NIC, BLUE, RETAINED),
      vmi: has({}),
      want: undefined,
    },
    {
      name: "no addresses of another network",
      vm: vmOf(NIC, RED, RETAINED),
      vmi: has({ ips: ["10.0.0.5"] }),
      want: undefined,
    },
    {
      name: "the addresses of the network after a swap",
      vm: vmOf(NIC, RED, RETAINED),
      vmi: has({ networkName: "others/red", ips: ["10.0.0.6"] }),
      want: [{ ...ENTRY, networkName: "others/red", ips: ["10.0.0.6"] }],
    },
    {
      name: "no addresses of the pod network, which cannot be requested",
      vm: vmOf(NIC, { name: "blue1", pod: {} }, RETAINED),
      vmi: has({ ips: ["10.0.0.5"] }),
      want: undefined,
    },
    {
      name: "no addresses of an iface that is being unplugged",
      vm: vmOf({ ...NIC, state: "absent" }, BLUE, RETAINED),
      vmi: has({ ips: ["10.0.0.5"] }),
      want: undefined,
    },
    {
      name: "no addresses of an iface that is no longer declared",
      vm: vmOf({ ...NIC, name: "other" }, { ...BLUE, name: "other" }, RETAINED),
      want: undefined,
    },
    ...[{ ips: ["10.0.0.9"] }, { ipamClaimName: "mine" }, { cniArgs: { ips: ["10.0.0.9"] } }].map(
      (own) => ({
        name: `no addresses if the user sets ${JSON.stringify(own)}`,
        vm: vmOf({ ...NIC, ...own }, BLUE, RETAINED),
        vmi: has({ ips: ["10.0.0.9"] }),
        want: undefined,
      }),
    ),
  ])("$name", ({ vm, vmi, want }) => {
    expect(retainedAfter(vm, vmi)).toEqual(want);
  });
});

/** What each NIC of a launcher's annotation prefers. */
function preferredOf(vmi: VirtualMachineInstance): readonly unknown[] {
  const annotations = buildPodAnnotations({ vmi, bindings: {} });
  expect(annotations).not.toHaveProperty(names.RETAINED_ADDRESSES_ANNOTATION);
  const parsed = parseNetworks(annotations[names.NETWORKS_ANNOTATION]);
  return parsed.ok ? parsed.elements.map((element) => element["io.patchbay.kept-ips"]) : [];
}

describe("the next launcher", () => {
  test("prefers the retained addresses without requesting any", () => {
    const vmi = vmiOf(vmOf(NIC, BLUE, RETAINED), {});
    expect(preferredOf(vmi)).toEqual([ENTRY.ips]);
    expect(vmi.spec).toEqual(vmiOf(vmOf(), {}).spec);
    expect(vmOf(NIC, BLUE, RETAINED).spec.template.metadata?.annotations).toBeUndefined();
  });

  test.each<{ name: string; vmi: VirtualMachineInstance }>([
    { name: "at the first start", vmi: vmiOf(vmOf(), {}) },
    { name: "on another network", vmi: vmiOf(vmOf(NIC, RED, RETAINED), {}) },
    {
      name: "if its VMI was on another network",
      vmi: {
        ...vmiOf(vmOf(NIC, RED), {}),
        metadata: vmiOf(vmOf(NIC, BLUE, RETAINED), {}).metadata,
      },
    },
    {
      name: "beside a user's request",
      vmi: {
        ...vmiOf(vmOf({ ...NIC, ips: ["10.0.0.9"] }), {}),
        metadata: vmiOf(vmOf(NIC, BLUE, RETAINED), {}).metadata,
      },
    },
  ])("prefers nothing $name", ({ vmi }) => {
    expect(preferredOf(vmi)).toEqual([undefined]);
  });

  test("retains its preference while the NIC exists, but not after replugging", () => {
    const vmi = vmiOf(vmOf(NIC, BLUE, RETAINED), {});
    const annotations = buildPodAnnotations({ vmi, bindings: {} });
    const parsed = parseNetworks(annotations[names.NETWORKS_ANNOTATION]);
    const elements = parsed.ok ? parsed.elements : [];
    expect(planPodNetworks({ vmi, bindings: {} }, elements)).toEqual(elements);
    const [again] = planPodNetworks({ vmi, bindings: {} }, []);
    expect(again).toMatchObject({ name: "blue", mac: NIC.macAddress });
    expect(again).not.toHaveProperty(["io.patchbay.kept-ips"]);
  });
});

const ATTACHED: Attachment = {
  name: "blue1",
  networkName: "ns1/blue",
  podInterfaceName: "pod1",
  state: "Attached",
};

function elementWith(...ips: readonly string[]): readonly NetworkSelection[] {
  return [{ name: "blue", interface: "pod1", "io.patchbay.kept-ips": ips }];
}

test.each<{ name: string; ips: readonly string[]; asked: readonly NetworkSelection[] }>([
  {
    name: "all NICs have their previous addresses",
    ips: ["fd00:0::5", "10.0.0.5"],
    asked: elementWith("fd00::5"),
  },
  { name: "no addresses were preferred", ips: ["10.0.0.5"], asked: elementWith() },
  {
    name: "the preference is for another NIC",
    ips: [],
    asked: [{ name: "blue", interface: "pod2" }],
  },
])("reports no address change if $name", ({ ips, asked: requested }) => {
  expect(addressesCondition([{ ...ATTACHED, ips: [...ips] }], requested)).toEqual([]);
});

test("reports nothing about a NIC that does not exist yet", () => {
  expect(addressesCondition([{ ...ATTACHED, state: "Failed" }], elementWith("10.0.0.5"))).toEqual(
    [],
  );
});

test("reports differences with the previous values", () => {
  const other = { ...ATTACHED, name: "red1", networkName: "ns1/red", podInterfaceName: "pod2" };
  const requested = [
    ...elementWith("10.0.0.5", "fd00::5"),
    { name: "red", interface: "pod2", "io.patchbay.kept-ips": ["10.1.0.5"] },
  ];
  const attachments = [{ ...ATTACHED, ips: ["10.0.0.7", "fd00::5"] }, other];
  expect(addressesCondition(attachments, requested)).toEqual([
    {
      type: ADDRESS_CHANGED,
      status: "True",
      reason: "AddressNotKept",
      message:
        "interface blue1 now has 10.0.0.7, fd00::5 on ns1/blue; it had 10.0.0.5 before; interface red1 now has no address on ns1/red; it had 10.1.0.5 before; see the events of the launcher pod for the cause",
    },
  ]);
});

test("records each change once as an event", () => {
  const conditions = (message: string): Conditions => [
    { type: ADDRESS_CHANGED, status: "True", reason: "AddressNotKept", message },
  ];
  const event = { reason: "AddressNotKept", message: "a" };
  expect(findNewAddressChange(undefined, conditions("a"))).toEqual(event);
  expect(findNewAddressChange(conditions("b"), conditions("a"))).toEqual(event);
  expect(findNewAddressChange(conditions("a"), conditions("a"))).toBeUndefined();
  expect(findNewAddressChange(conditions("a"), [])).toBeUndefined();
});
