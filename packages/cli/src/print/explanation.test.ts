// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachine, VirtualMachineInstance } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { printExplanation } from "./explanation.ts";
import { toIfaceRows } from "./iface-rows.ts";
import { printInterfaces } from "./interfaces.ts";

const spec = {
  domain: {
    devices: {
      interfaces: [
        { name: "default", bridge: {} },
        { name: "blue", bridge: {}, macAddress: "02:00:00:00:00:01" },
      ],
    },
  },
  networks: [
    { name: "default", pod: {} },
    { name: "blue", multus: { networkName: "ns/blue" } },
  ],
};

const vm: VirtualMachine = {
  apiVersion: "kubevirt.io/v1",
  kind: "VirtualMachine",
  metadata: { namespace: "ns", name: "one" },
  spec: { template: { spec } },
};

const vmi: VirtualMachineInstance = {
  apiVersion: "kubevirt.io/v1",
  kind: "VirtualMachineInstance",
  metadata: { namespace: "ns", name: "one", uid: "u" },
  spec,
  status: {
    phase: "Running",
    nodeName: "n1",
    attachments: [
      {
        name: "blue",
        podInterfaceName: "pod16477688c0e",
        state: "Failed",
        reason: "CniFailed",
        message: "no lease",
      },
    ],
    interfaces: [
      {
        name: "default",
        mac: "02:00:00:00:00:00",
        ipAddresses: ["10.0.0.2"],
        infoSource: "domain",
        podInterfaceName: "eth0",
        pciAddress: "0000:01:00.0",
        interfaceName: "enp1s0",
      },
      {
        name: "blue",
        hotplug: { type: "Plug", phase: "PodAttaching", reason: "CniFailed", message: "no lease" },
      },
      { name: "gone", hotplug: { type: "Unplug", phase: "Detaching" } },
    ],
  },
};

describe("printInterfaces", () => {
  test("lists all known interfaces, those of the spec first", () => {
    expect(printInterfaces(toIfaceRows({ vm, vmi }), vmi)).toBe(
      [
        "NAME      NETWORK   PHASE          REASON      LINK   MAC                 IPS        POD NIC          PCI            IN GUEST",
        "default   pod       Ready          -           -      02:00:00:00:00:00   10.0.0.2   eth0             0000:01:00.0   enp1s0",
        "blue      ns/blue   PodAttaching   CniFailed   -      02:00:00:00:00:01   -          pod16477688c0e   -              -",
        "gone      -         Detaching      -           -      -                   -          -                -              -",
        "",
      ].join("\n"),
    );
  });

  test("lists the declared interfaces of a stopped VM", () => {
    const rows = toIfaceRows({ vm });
    expect(rows.map(({ name }) => name)).toEqual(["default", "blue"]);
    expect(printInterfaces(rows, undefined)).toContain("Stopped");
  });

  test("reports a VM without interfaces", () => {
    expect(printInterfaces([], undefined)).toBe("no interfaces\n");
  });

  test("ends with the number of free ports of a running VM", () => {
    const withPorts = { ...vmi, status: { ...vmi.status, pciePorts: { total: 33, free: 31 } } };
    expect(printInterfaces([], withPorts)).toBe(
      "no interfaces\nPCIe ports for more: 31 of 33 free\n",
    );
  });
});

describe("printExplanation", () => {
  test("begins with why the VM does not start", () => {
    const [, blue] = toIfaceRows({ vm });
    const problem = "UnsupportedSpec: spec.template.spec.domain.devices.tpm: is not supported yet";
    const explained = { title: "virtualmachine ns/one", isRunning: false, problem };
    const text = blue === undefined ? "" : printExplanation(blue, explained);
    expect(text.split("\n")[2]).toBe(`does not start: ${problem}`);
  });

  test("names the container runtime as the next actor while it does not answer", () => {
    const hotplug = { type: "Plug", phase: "PodAttaching" } as const;
    const silent = "RuntimeUnavailable";
    const next = "next:   the node's container runtime responds";
    const titled = { title: "vm ns/one", isRunning: true };
    const row = { name: "blue", status: { name: "blue", hotplug } };
    const told = { ...row, status: { name: "blue", hotplug: { ...hotplug, reason: silent } } };
    const flat = (text: string): string => text.replace(/next: +/, "next:   ");
    expect(flat(printExplanation(told, titled))).toContain(next);
    expect(flat(printExplanation(row, { ...titled, blockedReason: silent }))).toContain(next);
    expect(flat(printExplanation(row, titled))).not.toContain(next);
  });

  describe("of a plugged NIC whose network's definition was edited", () => {
    const CHANGED = {
      reason: "NetworkChanged",
      message: "the definition of ns/blue was changed after this NIC was attached: plugins[0].mtu",
    } as const;
    const attachment = { name: "blue", podInterfaceName: "pod1", state: "Attached" } as const;
    const hotplug = { type: "Plug", phase: "Ready" } as const;
    const titled = { title: "vm ns/one", isRunning: true };
    test.each([
      { name: "as the reason of the NIC", status: CHANGED, attached: CHANGED },
      {
        name: "beside another reason of the NIC",
        status: { reason: "MtuDiffers", message: "1400 and 1500" },
        attached: CHANGED,
      },
    ] as const)("names what differs and how to apply it, $name", ({ status, attached }) => {
      const text = printExplanation(
        {
          name: "blue",
          attachment: { ...attachment, ...attached },
          status: { name: "blue", hotplug: { ...hotplug, ...status } },
        },
        titled,
      );
      expect(text).toContain("reason:  NetworkChanged\n");
      expect(text).toContain("plugins[0].mtu\n");
      expect(text).toMatch(/next: +swap or replug to apply: /);
    });

    test("says that nothing is left to do without an edit", () => {
      const row = { name: "blue", attachment, status: { name: "blue", hotplug } };
      expect(printExplanation(row, titled)).toMatch(/next: +nothing\n/);
    });
  });

  test("names the limits that slow the NIC down", () => {
    const bandwidth = { inbound: { average: "10Mi", burst: "1Mi" }, outbound: { average: 5000 } };
    const row = { name: "blue", status: { name: "blue", bandwidth } };
    const text = printExplanation(row, { title: "vm ns/one", isRunning: true });
    expect(text).toContain(
      "limits: inbound 10Mi bytes per second, outbound 5000 bytes per second\n",
    );
  });

  test("prints all layers and the next actor", () => {
    const [, blue] = toIfaceRows({ vm, vmi });
    const explained = { title: "virtualmachine ns/one", isRunning: true, node: "n1" };
    const text = blue === undefined ? "" : printExplanation(blue, explained);
    expect(text).toBe(`interface: blue
of:        virtualmachine ns/one
node:      n1

network
  definition: ns/blue

interface in the VM
  state:   up
  binding: bridge
  mac:     02:00:00:00:00:01

interface in the VMI
  state:   up
  binding: bridge
  mac:     02:00:00:00:00:01

attachment of the pod
  state:   Failed
  pod NIC: pod16477688c0e
  reason:  CniFailed
  message: no lease

device
  none

progress
  phase:        PodAttaching
  reason:       CniFailed
  message:      no lease
  who can help: administrator
  next:         net-agent runs CNI ADD in the pod
`);
  });
});
