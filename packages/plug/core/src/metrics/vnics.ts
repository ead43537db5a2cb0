// SPDX-License-Identifier: Apache-2.0
// Which NICs there are, and how they are bound, by KubeVirt's names. Source: KubeVirt metrics/virt-controller vmistats_collector.go,
// vmstats_collector.go.
import type { Iface, VirtualMachine, VirtualMachineInstance, VmiSpec } from "@patchbay/api";
import { findByName, ifacesOf, networksOf } from "../spec/nics.ts";
import type { MetricFamily, Sample } from "./family.ts";

/** What KubeVirt writes for what is not given. */
const NONE = "<none>";
const POD_NETWORK = "pod networking";
const CORE_BINDINGS = ["bridge", "masquerade", "sriov", "passtBinding"] as const;

function bindingLabels(iface: Iface): Sample["labels"] {
  if (iface.binding !== undefined) {
    return { binding_type: "plugin", binding_name: iface.binding.name };
  }
  const core = CORE_BINDINGS.find((kind) => Object.hasOwn(iface, kind));
  return { binding_type: "core", binding_name: core ?? NONE };
}

function samplesOf(
  { namespace = "", name }: { readonly namespace?: string; readonly name: string },
  spec: VmiSpec,
): readonly Sample[] {
  return ifacesOf(spec).flatMap((iface): readonly Sample[] => {
    const network = findByName(networksOf(spec), iface.name);
    if (network === undefined) return [];
    const labels = {
      name,
      namespace,
      vnic_name: iface.name,
      ...bindingLabels(iface),
      network: network.multus?.networkName ?? POD_NETWORK,
      model: iface.model ?? NONE,
    };
    return [{ labels, value: 1 }];
  });
}

/** NICs of VMIs. */
export function vmiVnicFamily(vmis: readonly VirtualMachineInstance[]): MetricFamily {
  return {
    name: "kubevirt_vmi_vnic_info",
    help: "1 for each NIC of a VMI: its name, network, model and binding.",
    type: "gauge",
    samples: vmis.flatMap(({ metadata, spec }) => samplesOf(metadata, spec)),
  };
}

/** NICs in the templates of VMs. */
export function vmVnicFamily(vms: readonly VirtualMachine[]): MetricFamily {
  return {
    name: "kubevirt_vm_vnic_info",
    help: "1 for each NIC in a VM's template: its name, network, model and binding.",
    type: "gauge",
    samples: vms.flatMap(({ metadata, spec }) => samplesOf(metadata, spec.template.spec)),
  };
}
