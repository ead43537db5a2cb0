// SPDX-License-Identifier: Apache-2.0
import type {
  VirtualMachineInstance,
  VirtualMachineInstanceMigration,
  Iface,
  Network,
} from "@patchbay/api";
import { aVmi, aVm } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import {
  outgoingMigrationFamilies,
  migrationFamilies,
  vmiAddressFamily,
  vmiInfoFamily,
  vmiVnicFamily,
  vmVnicFamily,
} from "./vmis.ts";
import { withNics } from "../nics/nics.ts";

const MIGRATABLE = [{ type: "LiveMigratable", status: "True" }] as const;

function vmiWith(
  status: VirtualMachineInstance["status"],
  spec: Partial<VirtualMachineInstance["spec"]> = {},
): VirtualMachineInstance {
  const vmi = aVmi();
  return { ...vmi, spec: { ...vmi.spec, ...spec }, status: { nodeName: "node1", ...status } };
}

describe("a VMI", () => {
  test("is reported with node, phase and guest OS", () => {
    const guestOSInfo = {
      name: "Debian GNU/Linux",
      versionId: "12",
      kernelRelease: "6.1.0",
      machine: "x86_64",
    };
    const vmi = vmiWith({ phase: "Running", guestOSInfo, conditions: [...MIGRATABLE] });
    const family = vmiInfoFamily([vmi], "None");
    expect(family).toMatchObject({ name: "kubevirt_vmi_info", type: "gauge" });
    expect(family.samples).toEqual([
      {
        labels: {
          node: "node1",
          namespace: "default",
          name: "vm1",
          phase: "running",
          guest_os_name: "Debian GNU/Linux",
          guest_os_version_id: "12",
          guest_os_kernel_release: "6.1.0",
          guest_os_arch: "x86_64",
          evictable: "true",
          outdated: "false",
          vmi_pod: expect.stringMatching(/^virt-launcher-vm1-/) as string,
        },
        value: 1,
      },
    ]);
  });

  test.each([
    { strategy: "LiveMigrate", conditions: [], want: "false" },
    { strategy: "LiveMigrate", conditions: [...MIGRATABLE], want: "true" },
    { strategy: "LiveMigrateIfPossible", conditions: [], want: "true" },
    { strategy: "None", conditions: [], want: "true" },
  ] as const)("with $strategy and $conditions is evictable: $want", (row) => {
    const { strategy, conditions, want } = row;
    const vmi = vmiWith({ conditions: [...conditions] }, { evictionStrategy: strategy });
    expect(vmiInfoFamily([vmi], "None").samples[0]?.labels["evictable"]).toBe(want);
  });

  test("without guest information has no labels for it", () => {
    const labels = Object.keys(vmiInfoFamily([vmiWith({})], "None").samples[0]?.labels ?? {});
    expect(labels).toEqual(["node", "namespace", "name", "evictable", "outdated"]);
  });
});

test("reports each interface of a VMI, with or without an address", () => {
  const interfaces = [
    { name: "default", interfaceName: "eth0", ipAddress: "10.0.2.2" },
    { interfaceName: "lo" },
    { mac: "02:00:00:00:00:01" },
  ];
  const { name, samples } = vmiAddressFamily([vmiWith({ interfaces })]);
  const place = { node: "node1", namespace: "default", name: "vm1" };
  expect(name).toBe("kubevirt_vmi_status_addresses");
  expect(samples.map(({ labels }) => labels)).toEqual([
    {
      ...place,
      vnic_name: "default",
      interface_name: "eth0",
      address: "10.0.2.2",
      type: "ExternalInterface",
    },
    { ...place, interface_name: "lo", type: "SystemInterface" },
  ]);
});

function aMigration(
  name: string,
  phase: NonNullable<VirtualMachineInstanceMigration["status"]>["phase"] | undefined,
): VirtualMachineInstanceMigration {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstanceMigration",
    metadata: { name, namespace: "default", uid: `uid-${name}` },
    spec: { vmiName: "vm1" },
    ...(phase !== undefined && { status: { phase } }),
  };
}

test("counts migrations by phase, and lists those that have ended", () => {
  const phases = [
    "Pending",
    "Scheduling",
    "Running",
    "TargetReady",
    "Succeeded",
    "Failed",
  ] as const;
  const all = [...phases.map((phase) => aMigration(phase, phase)), aMigration("new", undefined)];
  const migrationState = {
    migrationUid: "uid-Succeeded",
    startTimestamp: "1970-01-01T00:00:10Z",
    endTimestamp: "1970-01-01T00:00:20Z",
    completed: true,
  };
  const families = migrationFamilies(all, [vmiWith({ migrationState })]);
  const place = { node: "node1", namespace: "default", name: "vm1", migration_name: "Succeeded" };
  expect(families.map(({ name, samples }) => [name, samples])).toEqual([
    ["kubevirt_vmi_migrations_in_pending_phase", [{ labels: {}, value: 1 }]],
    ["kubevirt_vmi_migrations_in_scheduling_phase", [{ labels: {}, value: 1 }]],
    ["kubevirt_vmi_migrations_in_unset_phase", [{ labels: {}, value: 1 }]],
    ["kubevirt_vmi_migrations_in_running_phase", [{ labels: {}, value: 2 }]],
    [
      "kubevirt_vmi_migration_succeeded",
      [{ labels: { vmi: "vm1", vmim: "Succeeded", namespace: "default" }, value: 1 }],
    ],
    [
      "kubevirt_vmi_migration_failed",
      [{ labels: { vmi: "vm1", vmim: "Failed", namespace: "default" }, value: 1 }],
    ],
    ["kubevirt_vmi_migration_start_time_seconds", [{ labels: place, value: 10 }]],
    [
      "kubevirt_vmi_migration_end_time_seconds",
      [{ labels: { ...place, status: "succeeded" }, value: 20 }],
    ],
  ]);
});

test("reports the data to migrate as a counter with the 1.9 name and as a gauge with the older name", () => {
  const [total, older] = outgoingMigrationFamilies(
    [{ vmi: aVmi(), job: { state: "running", totalBytes: 5 } }],
    "node1",
  );
  expect(total).toMatchObject({
    name: "kubevirt_vmi_migration_data_bytes_total",
    type: "counter",
    samples: [{ value: 5 }],
  });
  expect(older).toMatchObject({ name: "kubevirt_vmi_migration_data_total_bytes", type: "gauge" });
});

/** Some of KubeVirt's own test of the metric. */
const NETWORKS: readonly Network[] = [
  { name: "iface1", pod: {} },
  { name: "iface2", pod: {} },
  { name: "iface3", multus: { networkName: "multus-net" } },
  { name: "iface4", multus: { networkName: "custom-net" } },
];
const SRIOV = { name: "iface3", sriov: {} };
const IFACES: readonly Iface[] = [
  { name: "iface1", bridge: {}, model: "virtio" },
  { name: "iface2", masquerade: {}, model: "e1000e" },
  SRIOV,
  { name: "iface4", binding: { name: "custom-plugin" } },
  { name: "dangling", bridge: {} },
];

const WANT = [
  ["iface1", "core", "bridge", "pod networking", "virtio"],
  ["iface2", "core", "masquerade", "pod networking", "e1000e"],
  ["iface3", "core", "sriov", "multus-net", "<none>"],
  ["iface4", "plugin", "custom-plugin", "custom-net", "<none>"],
].map(([vnic_name, binding_type, binding_name, network, model]) => ({
  labels: {
    name: "vm1",
    namespace: "default",
    vnic_name,
    binding_type,
    binding_name,
    network,
    model,
  },
  value: 1,
}));

test("reports each NIC that has a network, with its binding", () => {
  const vmi = aVmi();
  const family = vmiVnicFamily([{ ...vmi, spec: withNics(vmi.spec, NETWORKS, IFACES) }]);
  expect(family).toMatchObject({ name: "kubevirt_vmi_vnic_info", type: "gauge" });
  expect(family.samples).toEqual(WANT);
});

test("reports the NICs of a VM's template in the same way", () => {
  const vm = aVm();
  const { template } = vm.spec;
  const spec = withNics(template.spec, NETWORKS, IFACES);
  const family = vmVnicFamily([{ ...vm, spec: { ...vm.spec, template: { ...template, spec } } }]);
  expect(family.name).toBe("kubevirt_vm_vnic_info");
  expect(family.samples).toEqual(WANT);
});

test("reports no NICs for a VM without NICs", () => {
  expect(vmVnicFamily([aVm({ nics: [] })]).samples).toEqual([]);
});
