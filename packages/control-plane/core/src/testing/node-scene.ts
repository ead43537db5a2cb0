// SPDX-License-Identifier: Apache-2.0
// A VMI and its interfaces as virt-handler observes them.
import { networkConfigOf, type Attachment, type Iface } from "@patchbay/api";
import type { DomainFacts } from "@patchbay/domain";
import { aVmi } from "@patchbay/support";
import { NO_LINKS, type DeviceFacts, type IfaceFacts, type LinkFacts } from "../nics/facts.ts";
import {
  planNodeVm,
  type DomainSnapshot,
  type NodeAction,
  type NodeVmFacts,
} from "../vm/node/node-vm.ts";

export const MAC = "02:00:00:00:00:0a";
export const DEVICE_MAC = "02:00:00:00:00:0d";
export const IN_POD: Partial<LinkFacts> = { hasPodInterface: true, mtu: 1450 };
export const WIRED: Partial<LinkFacts> = {
  ...IN_POD,
  hasTap: true,
  hasBridge: true,
  isWired: true,
};
export const IN_USE: Partial<LinkFacts> = { ...WIRED, isTapOpen: true };

/** Options for an interface. By default it is declared, and nothing exists. */
export interface IfaceOptions {
  readonly name?: string;
  /** Entry in the spec; null if it was deleted. */
  readonly iface?: Partial<Iface> | null;
  /** Default: bridge. */
  readonly binding?: IfaceFacts["binding"];
  readonly attachment?: Attachment["state"];
  readonly links?: Partial<LinkFacts>;
  readonly device?: Partial<DeviceFacts>;
}

/** Facts about one interface, whose pod NIC is `pod0NAME`. */
export function anIface(options: IfaceOptions = {}): IfaceFacts {
  const { name = "a", iface = {}, binding = { kind: "bridge" }, links = {} } = options;
  const { attachment, device } = options;
  const podInterfaceName = `pod0${name}`;
  return {
    name,
    podInterfaceName,
    binding,
    links: { ...NO_LINKS, ...links },
    ...(iface === null ? {} : { iface: { name, bridge: {}, ...iface } }),
    ...(attachment === undefined
      ? {}
      : { attachment: { name, podInterfaceName, state: attachment, mac: MAC } }),
    ...(device === undefined
      ? {}
      : { device: { alias: `ua-${name}`, mac: DEVICE_MAC, linkUp: true, queues: 1, ...device } }),
  };
}

/** A running q35 with this many free ports. */
export function aDomain(ports = 4): DomainFacts {
  const controllers = Array.from({ length: ports }, (_unused, position) => ({
    index: position + 1,
    model: "pcie-root-port",
    hotplug: true,
  }));
  return {
    family: "q35",
    nics: [],
    controllers,
    pciAddresses: [],
    devices: [],
    vcpus: 1,
    sharesMemory: true,
    agentConnected: false,
    paths: [],
  };
}

export function running(facts = aDomain()): DomainSnapshot {
  return { running: true, isPaused: false, crashed: false, facts };
}

/** Facts about a VMI that has not run yet. */
export function factsOf(
  ifaces: readonly IfaceFacts[],
  change: Partial<NodeVmFacts> = {},
): NodeVmFacts {
  const nics = ifaces.flatMap(({ name, iface }) => (iface === undefined ? [] : [{ name }]));
  return {
    vmi: aVmi({ nics, status: { phase: "Scheduled" } }),
    role: "owner",
    ifaces,
    domain: undefined,
    useEmulation: true,
    network: networkConfigOf(undefined),
    uuid: "6f1c1a52-7f0c-8c0e-8d36-0a2b1d5b7c11",
    unplugRequests: {},
    ...change,
  };
}

export function plan(
  ifaces: readonly IfaceFacts[],
  change: Partial<NodeVmFacts> = {},
): readonly NodeAction[] {
  return planNodeVm(factsOf(ifaces, change));
}

export function live(
  ifaces: readonly IfaceFacts[],
  change: Partial<NodeVmFacts> = {},
): readonly NodeAction[] {
  return plan(ifaces, { domain: running(), ...change });
}

export function listSteps(actions: readonly NodeAction[]): readonly string[] {
  return actions.map((action) =>
    "iface" in action ? `${action.kind} ${action.iface}` : action.kind,
  );
}
