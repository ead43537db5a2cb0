// SPDX-License-Identifier: Apache-2.0
import type { Iface, Network } from "@patchbay/api";
import { aVm, aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { withNics } from "../spec/nics.ts";
import { vmiVnicFamily, vmVnicFamily } from "./vnics.ts";

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

test("each NIC of a VMI that has a network is told, with its binding", () => {
  const vmi = aVmi();
  const family = vmiVnicFamily([{ ...vmi, spec: withNics(vmi.spec, NETWORKS, IFACES) }]);
  expect(family).toMatchObject({ name: "kubevirt_vmi_vnic_info", type: "gauge" });
  expect(family.samples).toEqual(WANT);
});

test("the same of a VM's template", () => {
  const vm = aVm();
  const { template } = vm.spec;
  const spec = withNics(template.spec, NETWORKS, IFACES);
  const family = vmVnicFamily([{ ...vm, spec: { ...vm.spec, template: { ...template, spec } } }]);
  expect(family.name).toBe("kubevirt_vm_vnic_info");
  expect(family.samples).toEqual(WANT);
});

test("a VM without NICs has none", () => {
  expect(vmVnicFamily([aVm({ nics: [] })]).samples).toEqual([]);
});
