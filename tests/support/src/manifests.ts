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
  /** Absent: virtio. The others need the image `full`. */
  readonly model?: string;
  readonly acpiIndex?: number;
  readonly bootOrder?: number;
  /** Absent: `bridge`. */
  readonly binding?: "masquerade";
  /** Of a `masquerade`: what is passed on to the guest; absent: all. */
  readonly ports?: readonly { readonly port: number }[];
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
  /** Of the VMI, beside those that the controller sets. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** Which variant of the guest image: with the guest agent, or with drivers of all models of NICs; absent: the small one. */
  readonly image?: "agent" | "full";
  /** How much memory it has; 128Mi when absent. */
  readonly memory?: string;
  /** Labels of the nodes on which it may run; absent: any. */
  readonly nodeSelector?: Readonly<Record<string, string>>;
  /** What an eviction of its pod does; absent: what the cluster says. */
  readonly evictionStrategy?: string;
  /** `readinessProbe` and `livenessProbe`. */
  readonly probes?: Readonly<Record<string, unknown>>;
  /** By which the VM is sized, and what suits its guest; the first says how much memory it has. */
  readonly parts?: { readonly instancetype: object; readonly preference: object };
}

/**
 * Linux panics when the clock does not tick while it looks, which happens under software emulation on a busy host; it
 * guards processors of silicon at a tenth of an emulated boot, and tries its ciphers out at a twentieth. Nor does any guest
 * here need to lie at a random address, files to trace the kernel by, or files of its allocator's caches.
 */
export const KERNEL_ARGS =
  "console=ttyS0 quiet no_timer_check mitigations=off cryptomgr.notests nokaslr initcall_blacklist=tracer_init_tracefs,slab_sysfs_init";

const DEFAULT_NIC: ManifestNic = { name: "default" };

/**
 * Ports for NICs that are plugged later, where a story needs no more. With the cluster's default of 32, firmware and kernel
 * take half as long again to boot under emulation.
 */
export const FEW_PORTS = 4;

/** Files of the guest image: the small kernel unpacked, which starts and starts anew sooner. Source: hack/guest/make-image */
const IMAGE_FILES = {
  small: { kernelPath: "/vmlinux", initrdPath: "/initrd" },
  agent: { kernelPath: "/vmlinux", initrdPath: "/initrd-agent" },
  full: { kernelPath: "/vmlinuz-full", initrdPath: "/initrd-full" },
} as const;

/** Entry of `spec.domain.devices.interfaces`. */
export function ifaceManifest(nic: ManifestNic): Readonly<Record<string, unknown>> {
  const fields = Object.entries(nic).filter(([field]) => !["network", "binding"].includes(field));
  return { [nic.binding ?? "bridge"]: {}, ...Object.fromEntries(fields) };
}

/** Entry of `spec.networks`. */
export function networkManifest({ name, network }: ManifestNic): Readonly<Record<string, unknown>> {
  return network === undefined ? { name, pod: {} } : { name, multus: { networkName: network } };
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

/** A VirtualMachine with the guest image `guest`. */
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

/** A VirtualMachineInstance without a VM. */
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

/** A NetworkAttachmentDefinition with the bridge plugin on a bridge of the host; with a subnet, host-local gives addresses. */
export function bridgeNetworkManifest(name: string, bridge: string, subnet?: string): unknown {
  const ipam = subnet === undefined ? {} : { type: "host-local", subnet };
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "default" },
    // Leases are kept below the network's name, for all machines of a host.
    spec: {
      config: JSON.stringify({ cniVersion: "0.4.0", name: bridge, type: "bridge", bridge, ipam }),
    },
  };
}
