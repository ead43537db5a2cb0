// SPDX-License-Identifier: Apache-2.0
// Rate limits and backoff for the passes over one VM.
import type { VirtualMachineInstance } from "@patchbay/api";
import type { BlockedReason } from "@patchbay/core/status";
import {
  createStepBackoff,
  createTokenBuckets,
  specVersionOf,
  type Allowance,
  type StepBackoff,
  type TokenBuckets,
} from "@patchbay/kube";
import type { Clock } from "@patchbay/base";

/** A restart loses all of it, so that the new process tries everything at once. */
export interface RateLimits {
  /** By VMI uid. */
  readonly stepBackoff: StepBackoff<BlockedReason>;
  readonly passBudget: Budget;
  readonly writeBudget: Budget;
  readonly wiringBudget: WiringBudget;
  /** Since when a change is held back that may be over in a moment, by VMI uid; monotonic milliseconds. */
  readonly transientSince: Map<string, number>;
  /** Consecutive failed passes, by VMI uid. The queue backs off meanwhile. */
  readonly failedPasses: Map<string, number>;
}

/** The fields of a VMI that other components write. A change resets limits and backoff. */
export function serializeInputs(vmi: VirtualMachineInstance | undefined): string {
  const { attachments, activePods, migrationState } = vmi?.status ?? {};
  // A target that restarted listens on other ports.
  const {
    migrationUid,
    targetDirectMigrationNodePorts: ports,
    abortRequested,
  } = migrationState ?? {};
  const migrationInputs = [
    migrationUid,
    ports,
    abortRequested,
    migrationState?.sourceEndedTimestamp,
  ];
  return JSON.stringify([specVersionOf(vmi), attachments, activePods, migrationInputs]);
}

/** Time after which a VMI may have one more pass, milliseconds. */
export const PASS_REFILL_MS = 1_000;
/** A start takes about twenty passes and a plug ten. After the burst, a libvirt that sends events all the time gets one a second. */
const PASSES = { burst: 50, refillMs: PASS_REFILL_MS };
/** Time after which the status of a VMI may be written once more, milliseconds. */
export const WRITE_REFILL_MS = 10_000;
/** A start takes three writes and a plug three. After the burst, a guest or libvirt whose answers keep changing gets one in 10 s. */
const WRITES = { burst: 20, refillMs: WRITE_REFILL_MS };

/** Delay before the status shows that a plug waits for its pod or for the guest, milliseconds. Most of these waits end sooner. */
export const TRANSIENT_REPORT_DELAY_MS = 1_000;

/** By VMI uid. */
export interface Budget {
  /** Uses up one operation; false when none is left. A change of the VMI's inputs refills the budget. */
  take(vmi: VirtualMachineInstance): boolean;
  forget(uid: string): void;
}

function createBudget(clock: Clock, allowance: Allowance): Budget {
  const buckets = createTokenBuckets(clock, allowance);
  const known = new Map<string, string>();
  return {
    take(vmi): boolean {
      const { uid = "" } = vmi.metadata;
      const inputs = serializeInputs(vmi);
      if (known.get(uid) !== inputs) buckets.forget(uid);
      known.set(uid, inputs);
      return buckets.take(uid);
    },
    forget(uid): void {
      known.delete(uid);
      buckets.forget(uid);
    },
  };
}

/** Time after which the links of an iface may be created once more, milliseconds. */
export const WIRING_REFILL_MS = 10_000;
/** A plug takes one or two. After the burst, a launcher that keeps breaking its links gets one in 10 s. */
const WIRINGS = { burst: 10, refillMs: WIRING_REFILL_MS };

interface WiringBudget {
  take(vmi: VirtualMachineInstance, iface: string): boolean;
  forget(uid: string): void;
}

function createWiringBudget(clock: Clock): WiringBudget {
  const known = new Map<string, { readonly inputs: string; readonly buckets: TokenBuckets }>();
  return {
    take(vmi, iface): boolean {
      const { uid = "" } = vmi.metadata;
      const inputs = serializeInputs(vmi);
      const last = known.get(uid);
      const buckets = last?.inputs === inputs ? last.buckets : createTokenBuckets(clock, WIRINGS);
      known.set(uid, { inputs, buckets });
      return buckets.take(iface);
    },
    forget(uid): void {
      known.delete(uid);
    },
  };
}

export function createRateLimits(clock: Clock): RateLimits {
  return {
    stepBackoff: createStepBackoff({ clock }),
    passBudget: createBudget(clock, PASSES),
    writeBudget: createBudget(clock, WRITES),
    wiringBudget: createWiringBudget(clock),
    transientSince: new Map(),
    failedPasses: new Map(),
  };
}
