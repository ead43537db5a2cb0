// SPDX-License-Identifier: Apache-2.0
// Which NICs are on their way, how far they are, and what has been told to hold them up?
import {
  IFACE_PHASES,
  isAbsent,
  type Attachment,
  type HotplugType,
  type IfacePhase,
  type IfaceStatus,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { findByName, ifacesOf } from "../spec/nics.ts";
import type { MetricFamily } from "./family.ts";

/** An iface that is not yet as it is asked for. */
export interface PendingIface {
  readonly name: string;
  readonly type: HotplugType;
  /** When its present phase began, RFC 3339; undefined: nothing was told of it yet. */
  readonly since: string | undefined;
}

/** Another attachment than the one that carries the device: the network is to be another. */
function isSwap(told: IfaceStatus, attachments: readonly Attachment[]): boolean {
  return attachments.some(
    ({ name, state, podInterfaceName }) =>
      name === told.name && state !== "Removing" && podInterfaceName !== told.podInterfaceName,
  );
}

function pendingType(
  told: IfaceStatus | undefined,
  isWanted: boolean,
  attachments: readonly Attachment[],
): HotplugType | undefined {
  if (!isWanted) return told === undefined ? undefined : "Unplug";
  if (told?.hotplug === undefined) return "Plug";
  const { type, phase } = told.hotplug;
  if (type === "Swap" || (phase === "Ready" && isSwap(told, attachments))) return "Swap";
  return phase === "Ready" ? undefined : "Plug";
}

/** The ifaces of a VMI that are to come, to change their network or to go, by its spec and what was told of them. */
export function pendingIfaces({ spec, status }: VirtualMachineInstance): readonly PendingIface[] {
  const { interfaces = [], attachments = [] } = status ?? {};
  const ifaces = ifacesOf(spec);
  const names = new Set([...ifaces, ...interfaces].flatMap(({ name }) => name ?? []));
  return [...names].flatMap((name) => {
    const told = findByName(interfaces, name);
    const iface = findByName(ifaces, name);
    const type = pendingType(told, iface !== undefined && !isAbsent(iface), attachments);
    return type === undefined ? [] : [{ name, type, since: told?.hotplug?.since }];
  });
}

type Hotplug = IfaceStatus["hotplug"];

function reasonTold(before: Hotplug, after: Hotplug): readonly string[] {
  if (after?.reason === undefined) return [];
  const { attempts = 0 } = after;
  const isMore = attempts > (before?.attempts ?? 0);
  return before?.reason !== after.reason || isMore ? [after.reason] : [];
}

/** Reasons that are told of ifaces in `after`, and were not in `before`, or were with fewer attempts. */
export function reasonsTold(
  before: VirtualMachineInstance | undefined,
  after: VirtualMachineInstance,
): readonly string[] {
  const { interfaces: told = [] } = before?.status ?? {};
  return (after.status?.interfaces ?? []).flatMap(({ name = "", hotplug }) =>
    reasonTold(findByName(told, name)?.hotplug, hotplug),
  );
}

/** A phase that an iface has left. */
export interface EndedPhase {
  readonly type: HotplugType;
  readonly phase: IfacePhase;
  /** When it began, RFC 3339. */
  readonly since: string;
  /** When the next one began, RFC 3339; undefined: nothing is told of the iface any more. */
  readonly until: string | undefined;
}

/** The phases of ifaces on their way that `before` tells of, and `after` does not any more. */
export function phasesEnded(
  before: VirtualMachineInstance,
  after: VirtualMachineInstance,
): readonly EndedPhase[] {
  const { interfaces: told = [] } = after.status ?? {};
  return (before.status?.interfaces ?? []).flatMap(({ name = "", hotplug: was }) => {
    if (was?.since === undefined || was.phase === "Ready") return [];
    const is = findByName(told, name)?.hotplug;
    if (is?.phase === was.phase) return [];
    return [{ type: was.type, phase: was.phase, since: was.since, until: is?.since }];
  });
}

/** How many ifaces are in each phase: of every phase those of which no reason is told, and those of each reason. */
export function ifacePhaseFamily(vmis: readonly VirtualMachineInstance[]): MetricFamily {
  const told = vmis.flatMap(({ status }) =>
    (status?.interfaces ?? []).flatMap(({ hotplug }) => (hotplug === undefined ? [] : [hotplug])),
  );
  return {
    name: "patchbay_iface_phase",
    help: "Ifaces in each phase, by the reason that is told of them; none: they go on.",
    type: "gauge",
    samples: IFACE_PHASES.flatMap((phase) => {
      const reasons = told.flatMap((one) => (one.phase === phase ? [one.reason ?? ""] : []));
      return [...new Set(["", ...reasons])].map((reason) => ({
        labels: { phase, reason },
        value: reasons.filter((one) => one === reason).length,
      }));
    }),
  };
}

/** How long the oldest iface has been pending; 0 without one. */
export function oldestPendingFamily(seconds: number): MetricFamily {
  return {
    name: "patchbay_oldest_pending_iface_seconds",
    help: "Age of the oldest iface that is not yet as requested.",
    type: "gauge",
    samples: [{ labels: {}, value: seconds }],
  };
}
