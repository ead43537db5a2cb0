// SPDX-License-Identifier: Apache-2.0
// Objects for the panel: VMs with NICs in any state, and networks.
import type {
  IfaceOperation,
  NetworkAttachmentDefinition,
  VirtualMachine,
  VirtualMachineInstance,
} from "@patchbay/api";

export interface NicSpec {
  readonly name: string;
  /** Unset: the pod network. */
  readonly network?: string;
  readonly phase?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly address?: string;
  readonly guestName?: string;
  readonly state?: string;
  readonly operations?: readonly IfaceOperation[];
}

/** A plug that succeeded at the third attempt. */
const PLUG: IfaceOperation = {
  type: "Plug",
  networkName: "default/storage",
  startTimestamp: "2026-11-26T14:02:11.500Z",
  endTimestamp: "2026-11-26T14:02:12.340Z",
  outcome: "Done",
  phases: [
    { phase: "PodAttaching", milliseconds: 510 },
    { phase: "Wiring", milliseconds: 330 },
  ],
  reason: "CniFailed",
  attempts: 3,
};

export interface VmOf {
  readonly namespace?: string;
  readonly name: string;
  readonly nics: readonly NicSpec[];
  readonly node?: string;
  readonly state?: string;
  readonly free?: number;
  readonly system?: string;
}

function specOf({ nics }: VmOf) {
  const interfaces = nics.map(({ name, state }) => ({
    name,
    bridge: {},
    ...(state !== undefined && { state }),
  }));
  const networks = nics.map(({ name, network }) =>
    network === undefined ? { name, pod: {} } : { name, multus: { networkName: network } },
  );
  return { domain: { devices: { interfaces }, memory: { guest: "2Gi" } }, networks };
}

function statusOf(nic: NicSpec, index: number) {
  const { name, phase = "Ready", reason, message, address, guestName, state } = nic;
  const type = ["Detaching", "Unwiring", "PodDetaching"].includes(phase) ? "Unplug" : "Plug";
  return {
    name,
    mac: `02:00:5e:10:00:${(index + 16).toString(16)}`,
    infoSource: "domain, guest-agent",
    podInterfaceName: index === 0 ? "eth0" : `net${String(index)}`,
    pciAddress: `0000:0${String((index % 9) + 1)}:00.0`,
    linkState: state ?? "up",
    ...(guestName !== undefined && { interfaceName: guestName }),
    ...(address !== undefined && { ipAddresses: [address], ipAddress: address }),
    hotplug: {
      type,
      phase,
      since: "2026-11-26T14:02:11Z",
      ...(reason !== undefined && { reason, message, attempts: 4 }),
    },
  };
}

export function vmOf(spec: VmOf): VirtualMachine {
  const { namespace = "default", name, state = "Running" } = spec;
  const made = {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachine",
    metadata: { namespace, name, uid: `vm-${namespace}-${name}` },
    spec: {
      runStrategy: state === "Stopped" ? "Halted" : "Always",
      template: { spec: specOf(spec) },
    },
    status: { printableStatus: state },
  };
  return made as unknown as VirtualMachine; // the fields that the panel reads
}

/** Its VMI as the node reports it. */
export function vmiOf(spec: VmOf): VirtualMachineInstance {
  const { namespace = "default", name, nics, node = "node-a", free = 32, system } = spec;
  const made = {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: { namespace, name, uid: `vmi-${namespace}-${name}` },
    spec: specOf(spec),
    status: {
      phase: "Running",
      nodeName: node,
      interfaces: nics.map(statusOf),
      interfaceHistory: nics.flatMap(({ name: iface, operations }) =>
        operations === undefined ? [] : [{ name: iface, operations }],
      ),
      pciePorts: { total: 32, free },
      ...(system !== undefined && { guestOSInfo: { prettyName: system } }),
    },
  };
  return made as unknown as VirtualMachineInstance; // the fields that the panel reads
}

export function networkOf(
  name: string,
  type: string,
  problem?: string,
): NetworkAttachmentDefinition {
  const made = {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { namespace: "default", name },
    spec: { config: JSON.stringify({ cniVersion: "0.4.0", name, type }) },
    ...(problem !== undefined && {
      status: {
        problems: [{ node: "node-a", reason: "LinkMissing", message: problem, generation: 1 }],
      },
    }),
  };
  return made;
}

/** A small rack that shows every visual state once. */
export const RACK: readonly VmOf[] = [
  {
    name: "db",
    system: "Debian GNU/Linux 12",
    free: 29,
    nics: [
      { name: "default", address: "10.88.0.11", guestName: "enp1s0" },
      {
        name: "storage",
        network: "storage",
        address: "10.77.3.4",
        guestName: "enp2s0",
        operations: [PLUG],
      },
      {
        name: "backup",
        network: "backup",
        address: "10.77.4.4",
        guestName: "enp3s0",
        state: "down",
      },
    ],
  },
  {
    name: "mail",
    node: "node-b",
    system: "Debian GNU/Linux 12",
    free: 30,
    nics: [
      { name: "default", address: "10.88.0.23", guestName: "enp1s0" },
      { name: "front", network: "front", phase: "Attaching" },
    ],
  },
  {
    name: "router",
    node: "node-b",
    free: 0,
    system: "Alpine Linux v3.22",
    nics: [
      { name: "default", address: "10.88.0.5", guestName: "eth0" },
      { name: "front", network: "front", address: "10.77.1.1", guestName: "eth1" },
      { name: "storage", network: "storage", address: "10.77.3.1", guestName: "eth2" },
      {
        name: "uplink",
        network: "uplink",
        phase: "PodAttaching",
        reason: "CniFailed",
        message:
          "the plugin macvlan failed: the node has no link enp9s0, which the network uplink names as its parent",
      },
    ],
  },
  {
    name: "test",
    state: "Stopped",
    nics: [{ name: "default" }, { name: "front", network: "front" }],
  },
  {
    name: "web",
    system: "Debian GNU/Linux 12",
    free: 28,
    nics: [
      { name: "default", address: "10.88.0.7", guestName: "enp1s0" },
      { name: "front", network: "front", address: "10.77.1.8", guestName: "enp2s0" },
      {
        name: "old",
        network: "backup",
        phase: "Detaching",
        reason: "GuestRefused",
        message: "the guest has not released the device; the request is repeated",
      },
    ],
  },
];

export const NETWORKS = [
  networkOf("front", "bridge"),
  networkOf("storage", "bridge"),
  networkOf("backup", "macvlan"),
  networkOf("uplink", "macvlan", "there is no link enp9s0"),
];
