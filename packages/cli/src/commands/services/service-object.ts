// SPDX-License-Identifier: Apache-2.0
// Builds the Service that virtctl's `expose` creates. Source: KubeVirt v1.9 pkg/virtctl/expose.
import { isDefaultNetwork, names, type Iface, type VirtualMachineInstance } from "@patchbay/api";
import type { Service, ServicePort } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import { toLabelValue } from "@patchbay/core/vm";

export interface ExposeSettings {
  readonly target: string;
  readonly namespace: string;
  readonly spec: VirtualMachineInstance["spec"] | undefined;
  readonly name: string;
  /** Port; unset to use the ports of the interface on the pod network. */
  readonly port?: number;
  readonly targetPort?: string;
  readonly nodePort?: number;
  readonly portName?: string;
  readonly protocol: string;
  readonly type: string;
  readonly clusterIP?: string;
}

const NUMBER = /^\d+$/;

function parseTargetPort(text: string | undefined): Pick<ServicePort, "targetPort"> {
  if (text === undefined) return {};
  return { targetPort: NUMBER.test(text) ? Number(text) : text };
}

function isOnPodNetwork({ name }: Iface, spec: VirtualMachineInstance["spec"]): boolean {
  return (spec.networks ?? []).some(
    (network) => network.name === name && isDefaultNetwork(network),
  );
}

function listGuestPorts(spec: ExposeSettings["spec"]): readonly ServicePort[] {
  if (spec === undefined) return [];
  const ports = (spec.domain.devices?.interfaces ?? [])
    .filter((iface) => isOnPodNetwork(iface, spec))
    .flatMap((iface) => iface.ports ?? []);
  const hasOnePort = ports.length === 1;
  return ports.map(({ name, port, protocol = "TCP" }, index) => {
    const generated = hasOnePort ? {} : { name: `port-${String(index + 1)}` };
    return { ...(name === undefined ? generated : { name }), protocol, port };
  });
}

function buildPorts(settings: ExposeSettings): readonly ServicePort[] {
  const { port, portName, protocol, nodePort, targetPort, spec } = settings;
  if (port === undefined) return listGuestPorts(spec);
  const nameField = portName === undefined ? {} : { name: portName };
  const nodePortField = nodePort === undefined ? {} : { nodePort };
  return [{ ...nameField, protocol, port, ...parseTargetPort(targetPort), ...nodePortField }];
}

/** Builds a Service that selects launcher pods by label. @throws AppError with FLAG_INVALID */
export function buildService(settings: ExposeSettings): Service {
  const { name, namespace, target, type, clusterIP } = settings;
  const ports = buildPorts(settings);
  if (ports.length === 0) {
    const reason = `it is missing, and ${target} declares no ports on the pod network`;
    throw new AppError("FLAG_INVALID", { flag: "--port", reason });
  }
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, namespace },
    spec: {
      ports,
      selector: { [names.VM_NAME_LABEL]: toLabelValue(target) },
      type,
      ...(clusterIP !== undefined && { clusterIP }),
    },
  };
}
