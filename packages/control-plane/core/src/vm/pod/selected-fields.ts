// SPDX-License-Identifier: Apache-2.0
// Labels and ports of a launcher pod, by which Services and network policies select a VM.
import { names, type VirtualMachineInstance } from "@patchbay/api";
import type { Container } from "@patchbay/api/kubernetes";
import { ifacesOf } from "../../nics/nics.ts";
import { toLabelValue } from "../spec/guest-names.ts";

/** Returns the VMI's labels and Patchbay's, which take precedence. The pod has the VMI's labels, so that Services can select it. */
export function buildPodLabels({
  metadata,
}: Pick<VirtualMachineInstance, "metadata">): Readonly<Record<string, string>> {
  return {
    ...metadata.labels,
    [names.KUBEVIRT_LABEL]: names.LAUNCHER_LABEL_VALUE,
    [names.CREATED_BY_LABEL]: metadata.uid ?? "",
    [names.VM_NAME_LABEL]: toLabelValue(metadata.name),
  };
}

/** Valid names of container ports. Source: Kubernetes IsValidPortName. */
const PORT_NAME = /^(?=.*[a-z])[a-z0-9]+(?:-[a-z0-9]+)*$/;
const PORT_NAME_LENGTH_MAX = 15;

/** Lists the interfaces' ports, which Services and NetworkPolicies may select by name. Source: KubeVirt containerPortsFromVMI. */
export function listContainerPorts({
  spec,
}: Pick<VirtualMachineInstance, "spec">): NonNullable<Container["ports"]> {
  const usedNames = new Set<string>();
  return ifacesOf(spec)
    .flatMap(({ ports = [] }) => ports)
    .map(({ name = "", port: containerPort, protocol = "TCP" }) => {
      const isValid = name.length <= PORT_NAME_LENGTH_MAX && PORT_NAME.test(name);
      const hasName = isValid && !usedNames.has(name);
      usedNames.add(name);
      return { ...(hasName && { name }), containerPort, protocol: protocol.toUpperCase() };
    });
}
