// SPDX-License-Identifier: Apache-2.0
// Manifests of small guests and networks, as a user writes them.

export interface ManifestNic {
  readonly name: string;
  /** NetworkAttachmentDefinition; unset: the pod network. */
  readonly network?: string;
  /** Whether the network takes the place of the pod network. */
  readonly isDefault?: true;
  readonly macAddress?: string;
  /** PCI address, for example `0000:05:00.0`. */
  readonly pciAddress?: string;
  /** Unset: virtio. The others need the image `full`. */
  readonly model?: string;
  readonly mtu?: number;
  readonly queues?: number;
  readonly acpiIndex?: number;
  readonly bootOrder?: number;
  /** Unset: `bridge`. */
  readonly binding?: "masquerade";
  /** Forwarded ports of a `masquerade`; unset: all. */
  readonly ports?: readonly { readonly port: number }[];
}

export interface GuestOptions {
  readonly name: string;
  readonly nics?: readonly ManifestNic[];
  readonly machine?: string;
  readonly kernelArgs?: string;
  readonly running?: boolean;
  /** Ports for hotplug; unset: the cluster's default. */
  readonly pcieRootPorts?: number;
  /** Virtual CPUs, default 1. With several, NICs have as many queue pairs. */
  readonly cores?: number;
  /** Of the VMI, beside those that the controller sets. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** Variant of the guest image: with the guest agent, or with all NIC drivers; unset: the small one. */
  readonly image?: "agent" | "full";
  /** Memory, default 128Mi. */
  readonly memory?: string;
  /** Node selector labels; unset: any node. */
  readonly nodeSelector?: Readonly<Record<string, string>>;
  /** Eviction strategy; unset: the cluster's. */
  readonly evictionStrategy?: string;
  /** `readinessProbe` and `livenessProbe`. */
  readonly probes?: Readonly<Record<string, unknown>>;
  /** Instancetype and preference; the former sets the memory. */
  readonly parts?: { readonly instancetype: object; readonly preference: object };
}

/**
 * Kernel options: Linux panics when its timer check fails, which happens under software emulation on a busy host; CPU
 * mitigations cost a tenth of an emulated boot, crypto self-tests a twentieth. Address randomization, tracing files and
 * slab files are unnecessary too.
 */
export const KERNEL_ARGS =
  "console=ttyS0 quiet no_timer_check mitigations=off cryptomgr.notests nokaslr initcall_blacklist=tracer_init_tracefs,slab_sysfs_init";

const DEFAULT_NIC: ManifestNic = { name: "default" };

/**
 * Hotplug ports for tests that need no more. With the default of 32, firmware and kernel boot half as long again under
 * emulation.
 */
export const FEW_PORTS = 4;

/**
 * Files of the guest image with the uncompressed small kernel, which boots and reboots faster. Source:
 * hack/guest/make-image
 */
const IMAGE_FILES = {
  small: { kernelPath: "/vmlinux", initrdPath: "/initrd" },
  agent: { kernelPath: "/vmlinux", initrdPath: "/initrd-agent" },
  full: { kernelPath: "/vmlinuz-full", initrdPath: "/initrd-full" },
} as const;

/** Entry of `spec.domain.devices.interfaces`. */
export function ifaceManifest(nic: ManifestNic): Readonly<Record<string, unknown>> {
  const omitted = ["network", "binding", "isDefault"];
  const fields = Object.entries(nic).filter(([field]) => !omitted.includes(field));
  return { [nic.binding ?? "bridge"]: {}, ...Object.fromEntries(fields) };
}

/** Entry of `spec.networks`. */
export function networkManifest(nic: ManifestNic): Readonly<Record<string, unknown>> {
  const { name, network, isDefault } = nic;
  if (network === undefined) return { name, pod: {} };
  const multus = { networkName: network, ...(isDefault === true && { default: true }) };
  return { name, multus };
}

function guestSpec(options: GuestOptions): Readonly<Record<string, unknown>> {
  const nics = options.nics ?? [DEFAULT_NIC];
  return {
    terminationGracePeriodSeconds: 10,
    ...options.probes,
    ...(options.nodeSelector === undefined ? {} : { nodeSelector: options.nodeSelector }),
    ...(options.evictionStrategy !== undefined && { evictionStrategy: options.evictionStrategy }),
    domain: {
      machine: { type: options.machine ?? "q35" },
      ...(options.cores === undefined ? {} : { cpu: { cores: options.cores } }),
      ...(options.parts === undefined ? { memory: { guest: options.memory ?? "128Mi" } } : {}),
      firmware: {
        kernelBoot: {
          kernelArgs: options.kernelArgs ?? KERNEL_ARGS,
          container: { image: "guest", ...IMAGE_FILES[options.image ?? "small"] },
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

export function vmManifest(options: GuestOptions): unknown {
  const { annotations } = options;
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { name: options.name, namespace: "default" },
    spec: {
      runStrategy: options.running === false ? "Halted" : "Always",
      ...options.parts,
      template: {
        ...(annotations === undefined ? {} : { metadata: { annotations } }),
        spec: guestSpec(options),
      },
    },
  };
}

export function vmiManifest(options: GuestOptions): unknown {
  const { annotations } = options;
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: {
      name: options.name,
      namespace: "default",
      ...(annotations === undefined ? {} : { annotations }),
    },
    spec: guestSpec(options),
  };
}

/** A NetworkAttachmentDefinition with the bridge plugin; with a subnet, host-local assigns addresses. */
export function bridgeNetworkManifest(name: string, bridge: string, subnet?: string): unknown {
  const ipam = subnet === undefined ? {} : { type: "host-local", subnet };
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "default" },
    // Leases are stored by network name, for all machines of a host.
    spec: {
      config: JSON.stringify({ cniVersion: "0.4.0", name: bridge, type: "bridge", bridge, ipam }),
    },
  };
}
