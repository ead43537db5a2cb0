// SPDX-License-Identifier: Apache-2.0
// A VMI and its ifaces as their node sees them, for tests of what is planned there.
import { networkConfigOf, type Attachment, type Iface } from "@patchbay/api";
import type { DomainFacts } from "@patchbay/domain";
import { aVmi } from "@patchbay/support";
import { NO_LINKS, type DeviceFacts, type IfaceFacts, type LinkFacts } from "../iface/facts.ts";
import {
  planNodeVm,
  type DomainSnapshot,
  type NodeAction,
  type NodeVmFacts,
} from "../plan/node/node-vm.ts";

export const MAC = "02:00:00:00:00:0a";
export const DEVICE_MAC = "02:00:00:00:00:0d";
export const IN_POD: Partial<LinkFacts> = { podInterface: true, mtu: 1450 };
export const WIRED: Partial<LinkFacts> = { ...IN_POD, tap: true, bridge: true, wired: true };
export const IN_USE: Partial<LinkFacts> = { ...WIRED, tapOpen: true };

/** An iface by what is known of it; default: declared, and nothing more. */
export interface Sketch {
  readonly name?: string;
  /** Of the entry in the spec; null: there is none any more. */
  readonly iface?: Partial<Iface> | null;
  /** Default: bridge. */
  readonly binding?: IfaceFacts["binding"];
  readonly attachment?: Attachment["state"];
  readonly links?: Partial<LinkFacts>;
  readonly device?: Partial<DeviceFacts>;
}

/** The facts of one iface, whose NIC in the pod is called `pod0NAME`. */
export function anIface(sketch: Sketch = {}): IfaceFacts {
  const { name = "a", iface = {}, binding = { kind: "bridge" }, links = {} } = sketch;
  const { attachment, device } = sketch;
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

/** A domain that runs. */
export function running(facts = aDomain()): DomainSnapshot {
  return { running: true, isPaused: false, crashed: false, facts };
}

/** All facts of a VMI that has not run yet, and of its ifaces. */
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
    asked: {},
    ...change,
  };
}

/** What is planned where no domain is. */
export function plan(
  ifaces: readonly IfaceFacts[],
  change: Partial<NodeVmFacts> = {},
): readonly NodeAction[] {
  return planNodeVm(factsOf(ifaces, change));
}

/** What is planned while the VM runs. */
export function live(
  ifaces: readonly IfaceFacts[],
  change: Partial<NodeVmFacts> = {},
): readonly NodeAction[] {
  return plan(ifaces, { domain: running(), ...change });
}

/** Each step and whose it is. */
export function stepsOf(actions: readonly NodeAction[]): readonly string[] {
  return actions.map((action) =>
    "iface" in action ? `${action.kind} ${action.iface}` : action.kind,
  );
}
