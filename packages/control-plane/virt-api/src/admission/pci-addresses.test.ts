// SPDX-License-Identifier: Apache-2.0
// PCI addresses that admission rejects, because no start of the VM could honor them.
import type { Disk, Iface, VirtualMachine } from "@patchbay/api";
import { createFakeStore } from "@patchbay/kube/testing";
import { describe, expect, test } from "vitest";
import { admissionRequest, POD, POD_IFACE } from "../testing/admission.ts";
import { depsOn } from "../testing/deps.ts";
import { aVm, aVmi } from "../testing/objects.ts";
import { validate } from "./validate.ts";

interface Devices {
  readonly machine?: string;
  readonly cores?: number;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly nics?: readonly Omit<Iface, "name">[];
  readonly disks?: readonly string[];
}

const nic = (pciAddress: string, more: Omit<Iface, "name"> = {}): Omit<Iface, "name"> => ({
  bridge: {},
  pciAddress,
  ...more,
});

/** A specification with the pod network's NIC, NICs `n1`, `n2`, …, and virtio disks `d0`, `d1`, … */
function specOf({ machine = "q35", cores = 1, nics = [], disks = [] }: Devices) {
  const names = nics.map((_nic, index) => `n${String(index + 1)}`);
  const interfaces = [
    POD_IFACE,
    ...nics.map((each, index) => ({ name: `n${String(index + 1)}`, ...each })),
  ];
  return {
    domain: {
      machine: { type: machine },
      cpu: { cores },
      devices: {
        interfaces,
        disks: disks.map((pciAddress, index): Disk => {
          return { name: `d${String(index)}`, disk: { bus: "virtio", pciAddress } };
        }),
      },
    },
    networks: [POD, ...names.map((name) => ({ name, multus: { networkName: name } }))],
    volumes: disks.map((_disk, index) => ({
      name: `d${String(index)}`,
      emptyDisk: { capacity: "1Gi" },
    })),
  };
}

function vmOf(devices: Devices): VirtualMachine {
  const { annotations } = devices;
  const metadata = annotations === undefined ? {} : { metadata: { annotations } };
  return aVm({ template: { ...metadata, spec: specOf(devices) } });
}

/** The causes as `FIELD: MESSAGE`, with fields below the VMI's devices. */
async function judge(...objects: Parameters<typeof admissionRequest>): Promise<readonly string[]> {
  const verdict = await validate(depsOn(createFakeStore()), admissionRequest(...objects));
  if (verdict.allowed) return [];
  return verdict.causes.map(
    ({ field, message }) => `${field.replace(/^.*\.devices\./, "")}: ${message}`,
  );
}

const N1 = "interfaces[1].pciAddress";
const NO_SUCH = "only PCI domain 0000 and slots 00 to 1f exist";

const ROWS: readonly (Devices & { readonly name: string; readonly want: readonly string[] })[] = [
  { name: "a port", nics: [nic("0000:05:00.0")], want: [] },
  { name: "the short form of a port, in upper case", nics: [nic("0A:00.0")], want: [] },
  { name: "a slot of bus 0 above the ports", nics: [nic("0000:00:1e.0")], want: [] },
  {
    name: "an e1000 in a port, and one in a conventional slot",
    nics: [nic("0000:01:00.0", { model: "e1000" }), nic("0000:04:01.0", { model: "e1000" })],
    want: [],
  },
  {
    name: "another PCI domain",
    nics: [nic("0001:05:00.0")],
    want: [`${N1}: 0001:05:00.0: ${NO_SUCH}`],
  },
  { name: "a slot above 1f", nics: [nic("81:20.0")], want: [`${N1}: 81:20.0: ${NO_SUCH}`] },
  {
    name: "a disk in another PCI domain",
    disks: ["00ff:05:00.0"],
    want: [`disks[0].disk.pciAddress: 00ff:05:00.0: ${NO_SUCH}`],
  },
  {
    name: "an absent NIC in another PCI domain",
    nics: [nic("0001:05:00.0", { state: "absent" })],
    want: [],
  },
  ...["0000:00:00.0", "0000:00:01.0", "0000:00:1f.0", "0000:00:1e.1"].map((address) => ({
    name: `${address}, which is reserved`,
    nics: [nic(address)],
    want: [`${N1}: ${address}: only slots 2 to 30, function 0, can be used`],
  })),
  {
    name: "a slot of bus 0 that the ports need",
    nics: [nic("0000:00:02.0")],
    want: [
      `${N1}: 0000:00:02.0: 2 PCIe ports take the slots of bus 0 below 3; use a slot from 3 to 30, or another bus`,
    ],
  },
  {
    name: "a function above 0",
    nics: [nic("0000:05:00.1")],
    want: [`${N1}: 0000:05:00.1: only function 0 of a slot can be used`],
  },
  {
    name: "a conventional slot of a bus that stays a port",
    nics: [nic("0000:09:01.0", { model: "e1000" })],
    want: [
      `${N1}: 0000:09:01.0: this bus has only slot 0; use 0000:0a:01.0 to 0000:0a:1f.0 for a conventional slot`,
    ],
  },
  {
    name: "a bus above the last",
    nics: [nic("0000:e9:00.0")],
    want: [`${N1}: 0000:e9:00.0: the last bus is 232`],
  },
  {
    name: "a bus above the last for which the guest has interrupt vectors",
    nics: [nic("0000:c8:00.0")],
    want: [
      `${N1}: 0000:c8:00.0: the guest has interrupt vectors for 187 PCIe ports with 1 vCPUs: give the VM more vCPUs, or use an address up to 0000:bb:00.0`,
    ],
  },
  { name: "the same bus with more vCPUs", cores: 2, nics: [nic("0000:c8:00.0")], want: [] },
  {
    name: "a port whose slots another NIC has on bus 0",
    cores: 4,
    nics: [nic("0000:c8:00.0"), nic("0000:00:1e.0", { model: "pcnet" }), nic("0000:00:10.0")],
    want: [
      "interfaces[3].pciAddress: 0000:00:10.0: 200 PCIe ports take the slots of bus 0 below 27; use a slot from 27 to 30, or another bus",
    ],
  },
  {
    name: "one address of two NICs",
    nics: [nic("0000:05:00.0"), nic("05:00.0")],
    want: ["interfaces[2].pciAddress: 0000:05:00.0: is also the address of interface n1"],
  },
  {
    name: "one address of a disk and a NIC",
    nics: [nic("0000:05:00.0")],
    disks: ["0000:05:00.0"],
    want: [`${N1}: 0000:05:00.0: is also the address of disk d0`],
  },
  {
    name: "a port that the bridge of a conventional slot needs",
    nics: [nic("0000:04:01.0", { model: "e1000" }), nic("0000:03:00.0")],
    want: [
      "interfaces[2].pciAddress: 0000:03:00.0: is also the address of the PCI bridge of a conventional slot",
    ],
  },
  {
    name: "a conventional slot whose bridge has no port",
    nics: [nic("0000:03:00.0"), nic("0000:04:01.0", { model: "e1000" })],
    want: [
      "interfaces[2].pciAddress: 0000:04:01.0: its PCI bridge needs 0000:03:00.0, the address of interface n1",
    ],
  },
  {
    name: "a bus of machine type pc",
    machine: "pc",
    nics: [nic("0000:01:00.0")],
    want: [`${N1}: 0000:01:00.0: only bus 0 exists`],
  },
  {
    name: "the slot of PIIX3 on machine type pc",
    machine: "pc",
    nics: [nic("0000:00:01.0")],
    want: [`${N1}: 0000:00:01.0: only slots 2 to 31, function 0, can be used`],
  },
  {
    name: "a port while devices are on the root complex",
    annotations: { "kubevirt.io/placePCIDevicesOnRootComplex": "true" },
    nics: [nic("0000:01:00.0")],
    want: [`${N1}: 0000:01:00.0: the VM has no PCIe ports: its devices are on the root complex`],
  },
  {
    name: "a malformed address once",
    nics: [nic("5")],
    want: [
      `${N1}: interface spec.template.spec.domain.devices.interfaces[1].name has malformed PCI address (5).`,
    ],
  },
];

describe("a VM's PCI addresses:", () => {
  test.each(ROWS)("$name", async (row) => {
    expect(await judge(vmOf(row))).toEqual(row.want);
  });

  test.each(ROWS)("$name, which the stored VM has already", async (row) => {
    const vm = vmOf(row);
    const update = { ...vm, spec: { ...vm.spec, runStrategy: "Halted" as const } };
    expect(await judge(update, vm)).toEqual([]);
  });
});

test("rejects the same addresses in a VMI without a VM", async () => {
  const lone = {
    ...aVmi("lone"),
    spec: specOf({ nics: [nic("0001:05:00.0")], disks: ["0000:c8:00.0"] }),
  };
  expect(await judge(lone)).toEqual([
    `${N1}: 0001:05:00.0: ${NO_SUCH}`,
    expect.stringContaining(
      "disks[0].disk.pciAddress: 0000:c8:00.0: the guest has interrupt vectors",
    ),
  ]);
});
