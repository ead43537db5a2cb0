// SPDX-License-Identifier: Apache-2.0
// A Service for VMs on network `default/blue`, with its definition and VMIs.
import {
  names,
  type Attachment,
  type IfaceStatus,
  type NetworkAttachmentDefinition,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { Service } from "@patchbay/api/kubernetes";
import { aVmi } from "@patchbay/support";

/** Assigns addresses of 10.77.1.0/24 and fd77::/64. */
export function aBlueDefinition(
  config: object = {
    type: "bridge",
    ipam: {
      type: "host-local",
      ranges: [[{ subnet: "10.77.1.0/24" }], [{ subnet: "fd77::/64" }]],
    },
  },
): NetworkAttachmentDefinition {
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { namespace: "default", name: "blue" },
    spec: { config: JSON.stringify(config) },
  };
}

/** Service `default/web`, port 80 to 8080 of VMs with the label `app=web`. */
export function aNetworkService(
  spec: Partial<Service["spec"]> = {},
  annotations: Readonly<Record<string, string>> = {},
): Service {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: {
      name: "web",
      namespace: "default",
      uid: "service-uid",
      annotations: {
        [names.SERVICE_NETWORK_ANNOTATION]: "blue",
        [names.SERVICE_SELECTOR_ANNOTATION]: "app=web",
        ...annotations,
      },
    },
    spec: { ports: [{ port: 80, protocol: "TCP", targetPort: 8080 }], ...spec },
  };
}

/** A ready VMI `default/NAME` with the label `app=web`, whose interface `nic` has these addresses on `default/blue`. */
export function aServedVmi(
  name: string,
  ips: readonly string[],
  change: {
    readonly metadata?: Partial<VirtualMachineInstance["metadata"]>;
    readonly spec?: Partial<VirtualMachineInstance["spec"]>;
    readonly status?: Partial<NonNullable<VirtualMachineInstance["status"]>>;
    readonly attachment?: Partial<Attachment>;
    readonly iface?: Partial<IfaceStatus>;
  } = {},
): VirtualMachineInstance {
  const podInterfaceName = "pod0123456789a";
  const vmi = aVmi({ nics: [{ name: "nic" }] });
  const attachment = {
    name: "nic",
    networkName: "default/blue",
    podInterfaceName,
    state: "Attached" as const,
    ips: [...ips],
    ...change.attachment,
  };
  const iface = {
    name: "nic",
    podInterfaceName,
    hotplug: { type: "Plug", phase: "Ready" } as const,
    ...change.iface,
  };
  return {
    ...vmi,
    metadata: {
      ...vmi.metadata,
      name,
      uid: `${name}-uid`,
      labels: { app: "web" },
      ...change.metadata,
    },
    spec: { ...vmi.spec, ...change.spec },
    status: {
      phase: "Running",
      nodeName: "node1",
      conditions: [{ type: "Ready", status: "True" }],
      attachments: [attachment],
      interfaces: [iface],
      ...change.status,
    },
  };
}
