// SPDX-License-Identifier: Apache-2.0
// Which labels and annotations does a launcher pod get?
import { names, printNetworks, type VirtualMachineInstance } from "@patchbay/api";
import { toldAddresses } from "../../addresses/kept-addresses.ts";
import { labelValueOf } from "../../spec/label-value.ts";
import { planPodNetworks, type NetworksOwner } from "./pod-networks.ts";

/** Written by programs for themselves on the VMI, which would say something else, or something wrong, on its pod. */
const NOT_THE_PODS = [
  "kubectl.kubernetes.io/last-applied-configuration",
  names.PCIE_TOPOLOGY_ANNOTATION,
  names.KEPT_ADDRESSES_ANNOTATION,
  names.NETWORKS_ANNOTATION,
  names.NETWORK_STATUS_ANNOTATION,
  names.ATTACHMENT_ERRORS_ANNOTATION,
  names.NETWORK_INFO_ANNOTATION,
];

/** The VMI's, by which Services find the pod, and ours, which nobody's replace. */
export function podLabelsOf({
  metadata,
}: VirtualMachineInstance): Readonly<Record<string, string>> {
  return {
    ...metadata.labels,
    [names.KUBEVIRT_LABEL]: names.LAUNCHER_LABEL_VALUE,
    [names.CREATED_BY_LABEL]: metadata.uid ?? "",
    [names.VM_NAME_LABEL]: labelValueOf(metadata.name),
  };
}

/** The VMI's, and ours. */
export function podAnnotationsOf(owner: NetworksOwner): Readonly<Record<string, string>> {
  const { vmi } = owner;
  const kept = toldAddresses(vmi);
  const elements = planPodNetworks({ ...owner, kept }, []);
  const others = Object.entries(vmi.metadata.annotations ?? {}).filter(
    ([key]) => !NOT_THE_PODS.includes(key),
  );
  return {
    ...Object.fromEntries(others),
    [names.DOMAIN_ANNOTATION]: vmi.metadata.name,
    [names.DEFAULT_CONTAINER_ANNOTATION]: names.LAUNCHER_CONTAINER,
    ...(elements.length === 0 ? {} : { [names.NETWORKS_ANNOTATION]: printNetworks(elements) }),
  };
}
