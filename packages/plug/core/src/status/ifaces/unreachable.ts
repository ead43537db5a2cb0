// SPDX-License-Identifier: Apache-2.0
// What is told of the ifaces of a VMI whose libvirt does not answer, so that nothing of them can be seen.
import type {
  BindingRegistry,
  IfacePhase,
  IfaceStatus,
  VirtualMachineInstance,
} from "@patchbay/api";
import { collectIfaceFacts } from "../../iface/collect.ts";
import { NO_LINKS, type DeviceFacts, type IfaceFacts } from "../../iface/facts.ts";
import { phaseOf } from "../../iface/phase.ts";
import { ifacesWithoutPort } from "../../pcie/ports.ts";
import { reasonOf, sayWithAdvice } from "../../reasons/of-error.ts";
import type { Reason } from "../../reasons/table.ts";
import type { Hindrance } from "../hindrance.ts";
import { findByName } from "../../spec/nics.ts";
import { NO_VIEW } from "../../guest/view.ts";
import { ifaceStatuses } from "./ifaces.ts";

/** Phases in which the node acts next: only those are held up. */
const HELD_UP: ReadonlySet<IfacePhase | undefined> = new Set<IfacePhase>([
  "Wiring",
  "Attaching",
  "Switching",
  "Detaching",
  "Unwiring",
]);

/** Phases in which bridge and tap stand. */
const WIRED: ReadonlySet<string | undefined> = new Set<IfacePhase>([
  "Attaching",
  "Ready",
  "PodSwapping",
  "Switching",
  "Detaching",
]);

function deviceReported(reported: IfaceStatus | undefined): DeviceFacts | undefined {
  if (reported?.queueCount === undefined) return undefined;
  const { mac = "", queueCount, pciAddress, mtu, interfaceName: name } = reported;
  const isKnown = reported.infoSource?.includes("guest-agent") === true;
  return {
    alias: "",
    mac,
    linkUp: reported.linkState !== "down",
    queues: queueCount,
    ...(pciAddress === undefined ? {} : { pciAddress }),
    ...(mtu === undefined ? {} : { mtu }),
    ...(isKnown ? { guest: name === undefined ? {} : { name } } : {}),
  };
}

/** The other NIC in the pod as it was reported last: in use, or only asked for. */
function swapAsReported({ swap, reported }: IfaceFacts): Pick<IfaceFacts, "swap"> {
  if (swap === undefined) return {};
  const bridge = reported?.otherPodInterfaceNames?.includes(swap.podInterfaceName) === true;
  const podInterface = reported?.hotplug?.phase === "Switching";
  return { swap: { ...swap, links: { ...swap.links, podInterface, bridge } } };
}

/** What of a NIC that works is told of by a reason: it is so still. */
const OF_READY: readonly (string | undefined)[] = ["MtuDiffers"] satisfies readonly Reason[];

function asBefore(status: IfaceStatus, before: IfaceStatus | undefined): IfaceStatus {
  const { hotplug } = before ?? {};
  const isKept = status.hotplug?.phase === "Ready" && OF_READY.includes(hotplug?.reason);
  return isKept && hotplug !== undefined ? { ...status, hotplug } : status;
}

/** Links and device as they were reported last: nothing changes them while libvirt is away. */
function asReported(facts: IfaceFacts): IfaceFacts {
  const phase = facts.reported?.hotplug?.phase;
  const wired = WIRED.has(phase);
  const there = wired || phase === "Unwiring";
  const device = deviceReported(facts.reported);
  return {
    ...facts,
    links: {
      ...NO_LINKS,
      podInterface: there,
      bridge: there,
      tap: there,
      wired,
      tapOpen: phase !== "Attaching",
    },
    ...(device === undefined ? {} : { device }),
    ...swapAsReported(facts),
  };
}

/** Nobody can ask the guest: its addresses are those that were reported last. */
function withAddresses(status: IfaceStatus, reported: IfaceStatus | undefined): IfaceStatus {
  if (reported?.addressInfo === undefined) return status;
  const { ipAddress, ipAddresses, addressInfo } = reported;
  return {
    ...status,
    ...(ipAddress === undefined ? {} : { ipAddress }),
    ...(ipAddresses === undefined ? {} : { ipAddresses }),
    addressInfo,
  };
}

/** What is known without libvirt. */
export interface Surroundings {
  /** RFC 3339. */
  readonly now: string;
  /** What the cluster has registered. */
  readonly bindings: BindingRegistry;
}

/** What holds up the ifaces of a VMI because of `error`. */
export function unreachableIfaces(
  vmi: VirtualMachineInstance,
  error: unknown,
  { now, bindings }: Surroundings,
): readonly IfaceStatus[] {
  const reason: Reason = reasonOf(error) ?? "LauncherUnreachable";
  const message = sayWithAdvice(error);
  const nothing = { links: [], nics: [], guest: NO_VIEW, bindings };
  const sources = { vmi, ...nothing, isBlind: true as const };
  const ifaces = collectIfaceFacts(sources).map(asReported);
  const hindranceOf = ({ reported }: IfaceFacts): Hindrance => ({
    reason,
    message,
    attempts: reported?.hotplug?.attempts ?? 0,
  });
  const heldUp = ifaces.filter((facts) => HELD_UP.has(phaseOf(facts)));
  const hindrances = Object.fromEntries(heldUp.map((facts) => [facts.name, hindranceOf(facts)]));
  const portless = ifacesWithoutPort(vmi, vmi.spec, bindings);
  const reported = vmi.status?.interfaces ?? [];
  const statuses = ifaceStatuses({ ifaces, hindrances, portless, now });
  return [
    ...statuses.map((status) => {
      const before = findByName(reported, status.name ?? "");
      return withAddresses(asBefore(status, before), before);
    }),
    ...reported.filter(({ name }) => name === undefined),
  ];
}
