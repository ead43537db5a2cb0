// SPDX-License-Identifier: Apache-2.0
// State of the node's VMs between reconcile passes. The state need not survive a restart.
import { isFinalPhase, type IfaceHistory, type VirtualMachineInstance } from "@patchbay/api";
import {
  endHistory,
  buildHistory,
  observeNics,
  withBlockedReasons,
  type ObservedNics,
} from "@patchbay/core/history";
import {
  describeTimings,
  type IfaceStage,
  type UnplugRequest,
  type DeviceTaps,
} from "@patchbay/core/nics";
import type { NodeVmFacts } from "@patchbay/core/vm";
import { isEqual, type Clock } from "@patchbay/base";
import { printTime } from "@patchbay/kube";
import { createGuestAgents, type GuestAgents } from "./guest-agents.ts";
import { createRateLimits, type RateLimits } from "./rate-limits.ts";
import type { Taps } from "./metrics/plugs.ts";

export interface PhaseTimings {
  /** Records the NICs' current phases. Each pass must call this, even if it writes no status, so that no phase is missed. */
  observe(vmi: VirtualMachineInstance, now: readonly IfaceStage[]): void;
  /** Describes the time that the NIC took to reach its phase. Returns undefined if the time is unknown. */
  describe(vmi: VirtualMachineInstance, iface: string): string | undefined;
  nextHistory(vmi: VirtualMachineInstance, next: NextStatus): IfaceHistory;
  markWritten(uid: string): void;
  forget(uid: string): void;
}

type NextStatus = Pick<NonNullable<VirtualMachineInstance["status"]>, "interfaces" | "phase">;

export function createPhaseTimings(clock: Clock): PhaseTimings {
  const known = new Map<string, ObservedNics>();
  return {
    observe: (vmi, stages) => {
      const { uid = "" } = vmi.metadata;
      const at = { nowMs: clock.monotonicMs(), now: printTime(clock.now()) };
      known.set(uid, observeNics(known.get(uid), { vmi, stages, at }));
    },
    describe: ({ metadata: { uid = "" } }, iface) =>
      describeTimings(known.get(uid)?.timings.get(iface), clock.monotonicMs()),
    nextHistory: (vmi, { interfaces = [], phase }) => {
      const { uid = "" } = vmi.metadata;
      const reported = vmi.status?.interfaceHistory ?? [];
      const observed = known.get(uid);
      if (observed === undefined) return reported;
      const next = withBlockedReasons(observed, interfaces);
      known.set(uid, next);
      const history = buildHistory(reported, next);
      return isFinalPhase(phase) ? endHistory(history, printTime(clock.now())) : history;
    },
    markWritten: (uid) => {
      const observed = known.get(uid);
      if (observed !== undefined) known.set(uid, { ...observed, ended: [] });
    },
    forget: (uid) => {
      known.delete(uid);
    },
  };
}

interface UnplugRequests {
  /**
   * Records an unplug request, and returns a function that undoes the record. `before` is the number of earlier requests according to the
   * VMI's status. `before` is ignored if this process has already recorded a request for the interface.
   */
  record(uid: string, iface: string, before: number): () => void;
  /** Records that libvirt reported the failure of the last request. Does nothing if no request is recorded. */
  recordRefusal(uid: string, iface: string): void;
  find(uid: string, iface: string): UnplugRequest | undefined;
  retain(uid: string, ifaces: readonly string[]): void;
}

interface IfaceRequests {
  readonly lastMs: number;
  readonly count: number;
  readonly isRefused: boolean;
}

export function createUnplugRequests(clock: Clock): UnplugRequests {
  const byVmi = new Map<string, ReadonlyMap<string, IfaceRequests>>();
  const find = (uid: string, iface: string): IfaceRequests | undefined =>
    byVmi.get(uid)?.get(iface);
  const put = (uid: string, iface: string, requests: IfaceRequests | undefined): void => {
    const requestsByIface = new Map(byVmi.get(uid));
    if (requests === undefined) requestsByIface.delete(iface);
    else requestsByIface.set(iface, requests);
    byVmi.set(uid, requestsByIface);
  };
  return {
    record(uid, iface, before): () => void {
      const previous = find(uid, iface);
      const count = (previous?.count ?? before) + 1;
      put(uid, iface, { lastMs: clock.monotonicMs(), count, isRefused: false });
      return () => {
        put(uid, iface, previous);
      };
    },
    recordRefusal(uid, iface): void {
      const requests = find(uid, iface);
      if (requests !== undefined) put(uid, iface, { ...requests, isRefused: true });
    },
    find(uid, iface): UnplugRequest | undefined {
      const requests = find(uid, iface);
      if (requests === undefined) return undefined;
      const { lastMs, count, isRefused } = requests;
      return { count, agoMs: clock.monotonicMs() - lastMs, isRefused };
    },
    retain(uid, ifaces): void {
      const retained = [...(byVmi.get(uid) ?? [])].filter(([iface]) => ifaces.includes(iface));
      if (retained.length > 0) byVmi.set(uid, new Map(retained));
      else byVmi.delete(uid);
    },
  };
}

type IfaceFacts = NodeVmFacts["ifaces"][number];
/** Settings of an interface that determine how its links are built. */
type WiredSpec = Pick<IfaceFacts, "iface" | "security">;

/** Settings of each interface when its links were last complete, by interface name. */
export type WiredSpecs = ReadonlyMap<string, WiredSpec>;

/**
 * Returns `last` with the current settings of each interface whose links are complete, and the names of the interfaces whose current
 * settings differ from those in `last`. Drops interfaces that are not in `ifaces`.
 */
export function compareWiredSpecs(
  ifaces: readonly IfaceFacts[],
  last: WiredSpecs = new Map(),
): { readonly specs: WiredSpecs; readonly changedIfaces: ReadonlySet<string> } {
  const toSpec = ({ iface, security }: IfaceFacts): WiredSpec => ({
    ...(iface && { iface }),
    ...(security && { security }),
  });
  const specs = ifaces.flatMap((facts) => {
    const spec = facts.links.isWired ? toSpec(facts) : last.get(facts.name);
    return spec === undefined ? [] : [[facts.name, spec] as const];
  });
  const changed = ifaces.filter((facts) => {
    const spec = last.get(facts.name);
    return spec !== undefined && !isEqual(spec, toSpec(facts));
  });
  return { specs: new Map(specs), changedIfaces: new Set(changed.map(({ name }) => name)) };
}

/** State of VMIs by UID. The state of a VMI is removed when the VMI is deleted. */
export interface Memory extends RateLimits {
  readonly unplugRequests: UnplugRequests;
  readonly guestAgents: GuestAgents;
  readonly deviceTaps: Map<string, DeviceTaps>;
  readonly taps: Taps;
  readonly wiredSpecs: Map<string, WiredSpecs>;
  readonly phaseTimings: PhaseTimings;
  /** Whether the last request to pause or resume a guest was to pause it. */
  readonly pauseRequests: Map<string, boolean>;
}

export function createMemory(clock: Clock): Memory {
  return {
    ...createRateLimits(clock),
    unplugRequests: createUnplugRequests(clock),
    guestAgents: createGuestAgents(clock),
    deviceTaps: new Map(),
    taps: new Map(),
    wiredSpecs: new Map(),
    phaseTimings: createPhaseTimings(clock),
    pauseRequests: new Map(),
  };
}

export function forgetVmi(uid: string, memory: Memory): void {
  memory.stepBackoff.forget(uid);
  memory.passBudget.forget(uid);
  memory.writeBudget.forget(uid);
  memory.wiringBudget.forget(uid);
  memory.diskRetryBudget.forget(uid);
  memory.transientSince.delete(uid);
  memory.failedPasses.delete(uid);
  memory.unplugRequests.retain(uid, []);
  memory.guestAgents.forget(uid);
  memory.deviceTaps.delete(uid);
  memory.taps.delete(uid);
  memory.wiredSpecs.delete(uid);
  memory.phaseTimings.forget(uid);
  memory.pauseRequests.delete(uid);
}
