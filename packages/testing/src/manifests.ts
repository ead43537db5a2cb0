// SPDX-License-Identifier: Apache-2.0
// Manifests of small guests and networks, as a user writes them.

/** A NIC of a manifest. */
export interface ManifestNic {
  readonly name: string;
  /** NetworkAttachmentDefinition; absent: the pod network. */
  readonly network?: string;
  readonly macAddress?: string;
  /** Where it is to be, for example `0000:05:00.0`. */
  readonly pciAddress?: string;
}

/** What differs between guests. */
export interface GuestOptions {
  readonly name: string;
  readonly nics?: readonly ManifestNic[];
  readonly machine?: string;
  readonly kernelArgs?: string;
  readonly running?: boolean;
  /** Ports for NICs that are plugged later; absent: the cluster's default. */
  readonly pcieRootPorts?: number;
  /** Virtual CPUs; 1 when absent. With several, NICs have as many pairs of queues. */
  readonly cores?: number;
}

/** Linux panics when the clock does not tick while it looks, which happens under software emulation on a busy host. */
export const KERNEL_ARGS = "console=ttyS0 quiet no_timer_check";

const DEFAULT_NIC: ManifestNic = { name: "default" };

/** Entry of `spec.domain.devices.interfaces`. */
export function ifaceManifest({
  name,
  macAddress,
  pciAddress,
}: ManifestNic): Readonly<Record<string, unknown>> {
  return {
    name,
    bridge: {},
    ...(macAddress === undefined ? {} : { macAddress }),
    ...(pciAddress === undefined ? {} : { pciAddress }),
  };
}

/** Entry of `spec.networks`. */
export function networkManifest({ name, network }: ManifestNic): Readonly<Record<string, unknown>> {
  return network === undefined ? { name, pod: {} } : { name, multus: { networkName: network } };
}

function guestSpec(options: GuestOptions): Readonly<Record<string, unknown>> {
  const nics = options.nics ?? [DEFAULT_NIC];
  return {
    terminationGracePeriodSeconds: 10,
    domain: {
      machine: { type: options.machine ?? "q35" },
      ...(options.cores === undefined ? {} : { cpu: { cores: options.cores } }),
      memory: { guest: "128Mi" },
      firmware: {
        kernelBoot: {
          kernelArgs: options.kernelArgs ?? KERNEL_ARGS,
          container: { image: "guest", kernelPath: "/vmlinuz", initrdPath: "/initrd" },
        },
      },
      devices: {
        interfaces: nics.map(ifaceManifest),
        ...(options.pcieRootPorts === undefined ? {} : { pcieRootPorts: options.pcieRootPorts }),
        ...(options.cores === undefined ? {} : { networkInterfaceMultiqueue: true }),
      },
    },
    networks: nics.map(networkManifest),
  };
}

/** A VirtualMachine with the guest image `guest`. */
export function vmManifest(options: GuestOptions): unknown {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { name: options.name, namespace: "default" },
    spec: {
      runStrategy: options.running === false ? "Halted" : "Always",
      template: { spec: guestSpec(options) },
    },
  };
}

/** A VirtualMachineInstance without a VM. */
export function vmiManifest(options: GuestOptions): unknown {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: { name: options.name, namespace: "default" },
    spec: guestSpec(options),
  };
}

/** A NetworkAttachmentDefinition with the bridge plugin on a bridge of the host; with a subnet, host-local gives addresses. */
export function bridgeNetworkManifest(name: string, bridge: string, subnet?: string): unknown {
  const ipam = subnet === undefined ? {} : { type: "host-local", subnet };
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "default" },
    spec: { config: JSON.stringify({ cniVersion: "0.4.0", name, type: "bridge", bridge, ipam }) },
  };
}
