// SPDX-License-Identifier: Apache-2.0
// Metrics of interfaces that are being plugged, swapped or unplugged, and of their reported reasons.
import {
  IFACE_PHASES,
  isAbsent,
  type Attachment,
  type HotplugType,
  type IfacePhase,
  type IfaceStatus,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { findByName, ifacesOf } from "../nics/nics.ts";
import type { MetricFamily } from "./family.ts";

export interface PendingIface {
  readonly name: string;
  readonly type: HotplugType;
  /** Start of the current phase, RFC 3339. Undefined until a phase is reported. */
  readonly since: string | undefined;
}

/** Returns whether a new attachment replaces the current one, so that the interface changes its network. */
function isSwap(reported: IfaceStatus, attachments: readonly Attachment[]): boolean {
  return attachments.some(
    ({ name, state, podInterfaceName }) =>
      name === reported.name &&
      state !== "Removing" &&
      podInterfaceName !== reported.podInterfaceName,
  );
}

function pendingType(
  reported: IfaceStatus | undefined,
  isWanted: boolean,
  attachments: readonly Attachment[],
): HotplugType | undefined {
  if (!isWanted) return reported === undefined ? undefined : "Unplug";
  if (reported?.hotplug === undefined) return "Plug";
  const { type, phase } = reported.hotplug;
  if (type === "Swap" || (phase === "Ready" && isSwap(reported, attachments))) return "Swap";
  return phase === "Ready" ? undefined : "Plug";
}

export function pendingIfaces({ spec, status }: VirtualMachineInstance): readonly PendingIface[] {
  const { interfaces = [], attachments = [] } = status ?? {};
  const ifaces = ifacesOf(spec);
  const names = new Set([...ifaces, ...interfaces].flatMap(({ name }) => name ?? []));
  return [...names].flatMap((name) => {
    const reported = findByName(interfaces, name);
    const iface = findByName(ifaces, name);
    const type = pendingType(reported, iface !== undefined && !isAbsent(iface), attachments);
    return type === undefined ? [] : [{ name, type, since: reported?.hotplug?.since }];
  });
}

type Hotplug = IfaceStatus["hotplug"];

function newReason(before: Hotplug, after: Hotplug): readonly string[] {
  if (after?.reason === undefined) return [];
  const { attempts = 0 } = after;
  const isMore = attempts > (before?.attempts ?? 0);
  return before?.reason !== after.reason || isMore ? [after.reason] : [];
}

/** Returns the reasons that are new in `after`, or whose attempts have increased. */
export function newReasons(
  before: VirtualMachineInstance | undefined,
  after: VirtualMachineInstance,
): readonly string[] {
  const { interfaces: reported = [] } = before?.status ?? {};
  return (after.status?.interfaces ?? []).flatMap(({ name = "", hotplug }) =>
    newReason(findByName(reported, name)?.hotplug, hotplug),
  );
}

export interface EndedPhase {
  readonly type: HotplugType;
  readonly phase: IfacePhase;
  readonly since: string;
  /** Start of the next phase, RFC 3339. Undefined if the interface is no longer reported. */
  readonly until: string | undefined;
}

/** Returns phases other than Ready that `before` reports and `after` does not. */
export function findEndedPhases(
  before: VirtualMachineInstance,
  after: VirtualMachineInstance,
): readonly EndedPhase[] {
  const { interfaces: reported = [] } = after.status ?? {};
  return (before.status?.interfaces ?? []).flatMap(({ name = "", hotplug: oldHotplug }) => {
    if (oldHotplug?.since === undefined || oldHotplug.phase === "Ready") return [];
    const { type, phase, since } = oldHotplug;
    const newHotplug = findByName(reported, name)?.hotplug;
    return newHotplug?.phase === phase ? [] : [{ type, phase, since, until: newHotplug?.since }];
  });
}

/** Counts interfaces by phase and reason. Each phase has a sample without a reason, even if the value is 0. */
export function ifacePhaseFamily(vmis: readonly VirtualMachineInstance[]): MetricFamily {
  const reported = vmis.flatMap(({ status }) =>
    (status?.interfaces ?? []).flatMap(({ hotplug }) => (hotplug === undefined ? [] : [hotplug])),
  );
  return {
    name: "patchbay_iface_phase",
    help: "Interfaces in each phase, by reported reason; none if they make progress.",
    type: "gauge",
    samples: IFACE_PHASES.flatMap((phase) => {
      const reasons = reported.flatMap((one) => (one.phase === phase ? [one.reason ?? ""] : []));
      return [...new Set(["", ...reasons])].map((reason) => ({
        labels: { phase, reason },
        value: reasons.filter((one) => one === reason).length,
      }));
    }),
  };
}

/** Builds the metric of the oldest pending interface. `seconds` is its age, or 0 if none is pending. */
export function oldestPendingFamily(seconds: number): MetricFamily {
  return {
    name: "patchbay_oldest_pending_iface_seconds",
    help: "Age of the oldest iface that is not yet as requested.",
    type: "gauge",
    samples: [{ labels: {}, value: seconds }],
  };
}
