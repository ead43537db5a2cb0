// SPDX-License-Identifier: Apache-2.0
// Builders of complete, valid objects: each test names only the relevant fields.
import type {
  Iface,
  Network,
  VirtualMachine,
  VirtualMachineInstance,
  VmiStatus,
} from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";

/** NICs by short form: name of the iface, and network or options. */
export interface NicSketch {
  readonly name: string;
  /** Default: `blue`. */
  readonly network?: string;
  readonly state?: string;
  readonly mac?: string;
  readonly pciAddress?: string;
  /** Name of a registered binding. Default: `bridge`. */
  readonly binding?: string;
}

function ifaceOf({ name, state, mac, pciAddress, binding }: NicSketch): Iface {
  return {
    name,
    ...(binding === undefined ? { bridge: {} } : { binding: { name: binding } }),
    ...(mac === undefined ? {} : { macAddress: mac }),
    ...(state === undefined ? {} : { state }),
    ...(pciAddress === undefined ? {} : { pciAddress }),
  };
}

function networkOf({ name, network }: NicSketch): Network {
  return { name, multus: { networkName: network ?? "blue" } };
}

function specOf(nics: readonly NicSketch[]): VirtualMachineInstance["spec"] {
  return {
    domain: {
      memory: { guest: "128Mi" },
      firmware: { kernelBoot: { container: { image: "guest", initrdPath: "initrd" } } },
      devices: { interfaces: nics.map(ifaceOf) },
    },
    networks: nics.map(networkOf),
  };
}

/** Reference of objects that {@link aVm} owns. */
export const VM_OWNER = {
  apiVersion: "kubevirt.io/v1",
  kind: "VirtualMachine",
  name: "vm1",
  uid: "vm-uid",
  controller: true,
  blockOwnerDeletion: true,
} as const;

/** A running VMI `default/vm1` of uid `vmi-uid`. */
export function aVmi(
  sketch: {
    readonly nics?: readonly NicSketch[];
    readonly status?: VmiStatus;
    readonly ownedByVm?: boolean;
  } = {},
): VirtualMachineInstance {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: {
      name: "vm1",
      namespace: "default",
      uid: "vmi-uid",
      resourceVersion: "1",
      finalizers: ["foregroundDeleteVirtualMachine"],
      ...(sketch.ownedByVm === true && { ownerReferences: [VM_OWNER] }),
    },
    spec: specOf(sketch.nics ?? []),
    ...(sketch.status === undefined ? {} : { status: sketch.status }),
  };
}

/** A VM `default/vm1` of uid `vm-uid` that runs. */
export function aVm(
  sketch: { readonly nics?: readonly NicSketch[]; readonly runStrategy?: "Always" | "Halted" } = {},
): VirtualMachine {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: {
      name: "vm1",
      namespace: "default",
      uid: "vm-uid",
      resourceVersion: "1",
      generation: 1,
    },
    spec: {
      runStrategy: sketch.runStrategy ?? "Always",
      template: { spec: specOf(sketch.nics ?? []) },
    },
  };
}

/** A running launcher pod of {@link aVmi} on `node1`. */
export function aPod(annotations: Readonly<Record<string, string>> = {}): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: "virt-launcher-vm1-abcde",
      namespace: "default",
      uid: "pod-uid",
      resourceVersion: "1",
      labels: { "kubevirt.io": "virt-launcher", "kubevirt.io/created-by": "vmi-uid" },
      annotations: { "kubevirt.io/domain": "vm1", ...annotations },
    },
    spec: { nodeName: "node1", containers: [{ name: "compute", image: "virt-launcher" }] },
    status: { phase: "Running", podIP: "10.88.0.2", podIPs: [{ ip: "10.88.0.2" }] },
  };
}
