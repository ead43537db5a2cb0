// SPDX-License-Identifier: Apache-2.0
// Metrics of interfaces that are being plugged, swapped or unplugged, and of the reasons that delay these operations.
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
  /** Start of the current phase in RFC 3339. Undefined until a phase is reported. */
  readonly since: string | undefined;
}

/** Returns whether a network swap is pending: the interface has a second attachment, which the guest does not use yet. */
function isSwap(ifaceStatus: IfaceStatus, attachments: readonly Attachment[]): boolean {
  return attachments.some(
    ({ name, state, podInterfaceName }) =>
      name === ifaceStatus.name &&
      state !== "Removing" &&
      podInterfaceName !== ifaceStatus.podInterfaceName,
  );
}

function findPendingType(
  ifaceStatus: IfaceStatus | undefined,
  isWanted: boolean,
  attachments: readonly Attachment[],
): HotplugType | undefined {
  if (!isWanted) return ifaceStatus === undefined ? undefined : "Unplug";
  if (ifaceStatus?.hotplug === undefined) return "Plug";
  const { type, phase } = ifaceStatus.hotplug;
  if (type === "Swap" || (phase === "Ready" && isSwap(ifaceStatus, attachments))) return "Swap";
  return phase === "Ready" ? undefined : "Plug";
}

export function pendingIfaces({ spec, status }: VirtualMachineInstance): readonly PendingIface[] {
  const { interfaces = [], attachments = [] } = status ?? {};
  const ifaces = ifacesOf(spec);
  const names = new Set([...ifaces, ...interfaces].flatMap(({ name }) => name ?? []));
  return [...names].flatMap((name) => {
    const ifaceStatus = findByName(interfaces, name);
    const iface = findByName(ifaces, name);
    const type = findPendingType(ifaceStatus, iface !== undefined && !isAbsent(iface), attachments);
    return type === undefined ? [] : [{ name, type, since: ifaceStatus?.hotplug?.since }];
  });
}

type Hotplug = IfaceStatus["hotplug"];

function findNewReason(oldHotplug: Hotplug, newHotplug: Hotplug): readonly string[] {
  if (newHotplug?.reason === undefined) return [];
  const { attempts = 0 } = newHotplug;
  const hasMoreAttempts = attempts > (oldHotplug?.attempts ?? 0);
  return oldHotplug?.reason !== newHotplug.reason || hasMoreAttempts ? [newHotplug.reason] : [];
}

/** Returns the blocked reason of each interface whose reason has changed, or whose number of attempts has grown, since `oldVmi`. */
export function newReasons(
  oldVmi: VirtualMachineInstance | undefined,
  newVmi: VirtualMachineInstance,
): readonly string[] {
  const { interfaces: oldStatuses = [] } = oldVmi?.status ?? {};
  return (newVmi.status?.interfaces ?? []).flatMap(({ name = "", hotplug }) =>
    findNewReason(findByName(oldStatuses, name)?.hotplug, hotplug),
  );
}

export interface EndedPhase {
  readonly type: HotplugType;
  readonly phase: IfacePhase;
  readonly since: string;
  /** Start of the next phase in RFC 3339. Undefined if the interface is no longer reported. */
  readonly until: string | undefined;
}

/** Lists the hotplug phases that interfaces left between `oldVmi` and `newVmi`. Omits the phase Ready. */
export function findEndedPhases(
  oldVmi: VirtualMachineInstance,
  newVmi: VirtualMachineInstance,
): readonly EndedPhase[] {
  const { interfaces: newStatuses = [] } = newVmi.status ?? {};
  return (oldVmi.status?.interfaces ?? []).flatMap(({ name = "", hotplug: oldHotplug }) => {
    if (oldHotplug?.since === undefined || oldHotplug.phase === "Ready") return [];
    const { type, phase, since } = oldHotplug;
    const newHotplug = findByName(newStatuses, name)?.hotplug;
    return newHotplug?.phase === phase ? [] : [{ type, phase, since, until: newHotplug?.since }];
  });
}

/** Counts interfaces by phase and reason. Each phase also has a sample without a reason, even if its value is 0. */
export function ifacePhaseFamily(vmis: readonly VirtualMachineInstance[]): MetricFamily {
  const hotplugs = vmis.flatMap(({ status }) =>
    (status?.interfaces ?? []).flatMap(({ hotplug }) => (hotplug === undefined ? [] : [hotplug])),
  );
  return {
    name: "patchbay_iface_phase",
    help: "Interfaces in each phase, by reported reason; none if they make progress.",
    type: "gauge",
    samples: IFACE_PHASES.flatMap((phase) => {
      const reasons = hotplugs.flatMap((entry) =>
        entry.phase === phase ? [entry.reason ?? ""] : [],
      );
      return [...new Set(["", ...reasons])].map((reason) => ({
        labels: { phase, reason },
        value: reasons.filter((entry) => entry === reason).length,
      }));
    }),
  };
}

/** Builds the metric for the age of the oldest pending interface. `seconds` is 0 if no interface is pending. */
export function oldestPendingFamily(seconds: number): MetricFamily {
  return {
    name: "patchbay_oldest_pending_iface_seconds",
    help: "Age of the oldest iface that is not yet as requested.",
    type: "gauge",
    samples: [{ labels: {}, value: seconds }],
  };
}
