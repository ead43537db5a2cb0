// SPDX-License-Identifier: Apache-2.0
// Every field of KubeVirt's is known, described, and in exactly one list.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { VmSpecSchema } from "../kinds/vm.ts";
import { VmiSpecSchema, type VmiSpec } from "../kinds/vmi-spec.ts";
import {
  listUnsupportedVmFields,
  listUnsupportedVmiFields,
  findUnbuiltField,
  listVmFields,
} from "../validate/fields.ts";
import { listSchemaFields, type SchemaField } from "./walk.ts";

interface Row {
  readonly path: string;
  readonly type: string;
  readonly required: boolean;
}

const ROWS: readonly Row[] = readFileSync(join(import.meta.dirname, "kubevirt-1.9.0.tsv"), "utf8")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"))
  .map((line) => {
    const [path = "", type = "", required] = line.split("\t");
    return { path, type, required: required === "required" };
  });

/** Of KubeVirt before v1, which its document has no more. */
const OLDER = /disks\[\]\.(volumeName|floppy)|volumes\[\]\.registryDisk/;

const FIELDS: ReadonlyMap<string, SchemaField> = new Map(
  [
    ...listSchemaFields(VmiSpecSchema, "VirtualMachineInstance.spec"),
    ...listSchemaFields(VmSpecSchema, "VirtualMachine.spec"),
  ].map((field) => [field.path, field]),
);

describe("KubeVirt's fields", () => {
  test("have KubeVirt's types and required fields", () => {
    expect(ROWS).toHaveLength(413);
    // Ours may go without devices, and its template always says something.
    const otherwise = [
      "VirtualMachineInstance.spec.domain.devices",
      "VirtualMachine.spec.template.spec",
    ];
    const same = ({ path, type, required }: Row): boolean => {
      const field = FIELDS.get(path);
      return field?.type === type && field.required === (required !== otherwise.includes(path));
    };
    const wrong = ROWS.filter((row) => !same(row)).map((row) => [row, FIELDS.get(row.path)]);
    expect(wrong).toEqual([]);
  });

  test("have descriptions, and so do Patchbay's own fields", () => {
    const silent = [...FIELDS.values()].filter(({ description }) => description.length < 3);
    expect(silent.map(({ path }) => path)).toEqual([]);
  });

  test("are in three lists, with few fields beyond KubeVirt's", () => {
    const known = new Set(ROWS.map(({ path }) => path));
    const own = [...FIELDS.keys()].filter(
      (path) => !known.has(path) && path.startsWith("VirtualMachineInstance."),
    );
    const base = "VirtualMachineInstance.spec.";
    expect(own.map((path) => path.slice(base.length)).filter(isOurs)).toEqual([
      "domain.devices.interfaces[].mtu",
      "domain.devices.interfaces[].queues",
      "domain.devices.interfaces[].bandwidth",
      "domain.devices.interfaces[].bandwidth.inbound",
      "domain.devices.interfaces[].bandwidth.inbound.average",
      "domain.devices.interfaces[].bandwidth.inbound.peak",
      "domain.devices.interfaces[].bandwidth.inbound.burst",
      "domain.devices.interfaces[].bandwidth.outbound",
      "domain.devices.interfaces[].bandwidth.outbound.average",
      "domain.devices.interfaces[].bandwidth.outbound.peak",
      "domain.devices.interfaces[].bandwidth.outbound.burst",
      "domain.devices.interfaces[].ips[]",
      "domain.devices.interfaces[].ipamClaimName",
      "domain.devices.interfaces[].cniArgs",
      "domain.devices.interfaces[].portSecurity",
      "domain.devices.interfaces[].portSecurity.mode",
      "domain.devices.interfaces[].portSecurity.allowedMACs[]",
      "domain.devices.interfaces[].portSecurity.allowedAddresses[]",
      "domain.devices.interfaces[].portSecurity.allowServers",
      "domain.devices.maxNetworkInterfaceQueues",
      "domain.devices.pcieRootPorts",
    ]);
  });

  test("include those of older versions, so that manifests are stored unchanged", () => {
    const base = "VirtualMachineInstance.spec.";
    const older = [
      "domain.devices.disks[].volumeName",
      "domain.devices.disks[].floppy",
      "volumes[].registryDisk.image",
      "volumes[].registryDisk.path",
    ];
    expect(older.filter((path) => !FIELDS.has(`${base}${path}`))).toEqual([]);
  });
});

/** What KubeVirt's document calls by the name of a Kubernetes type, Patchbay spells out. */
function isOurs(path: string): boolean {
  return (
    !OLDER.test(path) &&
    !/Probe\.|tolerations|dnsConfig|Ref\.|sysprep\.|fields\[\]|ephemeral\./.test(path)
  );
}

/** A value that asks for something, in the words of the API. */
function specWith(domain: object, more: object = {}): VmiSpec {
  // Rows hold what a client may send.
  return { domain, ...more };
}

describe("unsupported fields that would change the guest", () => {
  test.each([
    [
      "tags of disks",
      specWith({ devices: { disks: [{ name: "a", tag: "t" }] } }),
      "domain.devices.disks[0].tag",
    ],
    [
      "accounts",
      specWith({}, { volumes: [{ name: "a", serviceAccount: {} }] }),
      "volumes[0].serviceAccount",
    ],
    ["a sound card", specWith({ devices: { sound: { name: "s" } } }), "domain.devices.sound"],
    [
      "Windows' hypervisor",
      specWith({ features: { hyperv: { relaxed: {} } } }),
      "domain.features.hyperv",
    ],
    ["GPUs", specWith({ devices: { gpus: [{ name: "g" }] } }), "domain.devices.gpus"],
    ["devices", specWith({ devices: { hostDevices: [{}] } }), "domain.devices.hostDevices"],
    ["large pages", specWith({ memory: { hugepages: {} } }), "domain.memory.hugepages"],
    ["sealed memory", specWith({ launchSecurity: {} }), "domain.launchSecurity"],
  ])("are reported: %s", (_what, spec, field) => {
    expect(listUnsupportedVmiFields(spec, "spec").unbuilt.map((problem) => problem.field)).toEqual([
      `spec.${field}`,
    ]);
  });

  test("are reported all at once, with their paths in the VM", () => {
    const template = { spec: specWith({ memory: { hugepages: {} }, devices: { gpus: [{}] } }) };
    const { unbuilt } = listUnsupportedVmFields({ template });
    expect(unbuilt.map(({ field }) => field)).toEqual([
      "spec.template.spec.domain.memory.hugepages",
      "spec.template.spec.domain.devices.gpus",
    ]);
  });

  test("ignores values that equal the default behavior", () => {
    const devices = {
      disks: [],
      tpm: { enabled: false },
      autoattachGraphicsDevice: false,
      autoattachSerialConsole: true,
      interfaces: [{ name: "a", bridge: {}, sriov: null }],
    };
    const features = { acpi: {}, smm: { enabled: false }, kvm: {} };
    const firmware = { bootloader: { bios: {} } };
    const domain = { devices, features, firmware, clock: { utc: {} }, rebootPolicy: "Reboot" };
    const spec = specWith(domain, { architecture: "amd64", startStrategy: "" });
    expect(listUnsupportedVmiFields(spec, "spec")).toEqual({ unbuilt: [], harmless: [] });
  });
});

test("ignores fields of an interface that is being unplugged", () => {
  const deleting = { name: "a", sriov: {}, tag: "t", state: "absent" };
  const spec = specWith({ devices: { interfaces: [deleting, { name: "b", sriov: {} }] } });
  const field = "domain.devices.interfaces[1].sriov";
  const named = ({ unbuilt, harmless }: ReturnType<typeof listUnsupportedVmiFields>): unknown => [
    unbuilt.map((problem) => problem.field),
    harmless,
  ];
  expect(named(listUnsupportedVmiFields(spec, "spec"))).toEqual([[`spec.${field}`], []]);
  expect(named(listUnsupportedVmFields({ template: { spec } }))).toEqual([
    [`spec.template.spec.${field}`],
    [],
  ]);
});

test("separates harmless fields", () => {
  const spec = specWith({ cpu: { maxSockets: 2 } }, { serviceAccountName: "a" });
  expect(listUnsupportedVmiFields(spec, "spec")).toEqual({
    unbuilt: [],
    harmless: ["spec.domain.cpu.maxSockets", "spec.serviceAccountName"],
  });
});

test("findUnbuiltField returns the unsupported field of an iface", () => {
  expect(findUnbuiltField({ name: "a", bridge: {} })).toBeUndefined();
  expect(findUnbuiltField({ name: "a", bridge: {}, tag: "t", ports: [] })).toBeUndefined();
  expect(findUnbuiltField({ name: "a", sriov: {}, dhcpOptions: {} })).toEqual({
    field: "sriov",
    message: "is not supported yet; use bridge",
  });
});

test("separates unsupported fields from ineffective ones, with advice for each", () => {
  const spec = specWith(
    { memory: { hugepages: {}, maxGuest: "1Gi" }, cpu: { maxSockets: 2 } },
    { serviceAccountName: "a" },
  );
  const message = "is not supported yet; leave it out; memory is not plugged";
  expect(listUnsupportedVmiFields(spec, "spec")).toEqual({
    unbuilt: [
      { field: "spec.domain.memory.hugepages", message: "is not supported yet" },
      { field: "spec.domain.memory.maxGuest", message },
    ],
    harmless: ["spec.domain.cpu.maxSockets", "spec.serviceAccountName"],
  });
});

test("ignores maps and values that are not objects", () => {
  const spec = specWith({ cpu: "many" }, { nodeSelector: { cpu: "fast" } });
  expect(listUnsupportedVmiFields(spec, "spec")).toEqual({ unbuilt: [], harmless: [] });
});

test("the fields of a VM are those of its schema, below `spec`", () => {
  expect(listVmFields().find(({ path }) => path === "spec.template.spec.networks[].name")).toEqual({
    path: "spec.template.spec.networks[].name",
    type: "string",
    required: true,
    level: "acted",
    description: "Name of the network within the VM.",
  });
});
