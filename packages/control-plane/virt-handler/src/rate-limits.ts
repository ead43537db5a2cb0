// SPDX-License-Identifier: Apache-2.0
// Rate limits and backoff for the passes over one VM.
import type { VirtualMachineInstance } from "@patchbay/api";
import type { BlockedReason } from "@patchbay/core/status";
import {
  createStepBackoff,
  createTokenBuckets,
  specVersionOf,
  type RateLimit,
  type StepBackoff,
  type TokenBuckets,
} from "@patchbay/kube";
import type { Clock } from "@patchbay/base";

/** Rate limits and backoff. A restart discards them, so the new process retries everything at once. */
export interface RateLimits {
  /** Failed steps, by uid of the VMI. */
  readonly stepBackoff: StepBackoff<BlockedReason>;
  readonly passBudget: Budget;
  readonly writeBudget: Budget;
  readonly wiringBudget: WiringBudget;
  /** Monotonic time since which a possibly short-lived change is not reported, in milliseconds, by uid of the VMI. */
  readonly transientSince: Map<string, number>;
  /** Number of consecutive failed passes by uid of the VMI. The queue backs off meanwhile. */
  readonly failedPasses: Map<string, number>;
}

/** Serializes the fields of a VMI that other components write. A change resets limits and backoff. */
export function serializeInputs(vmi: VirtualMachineInstance | undefined): string {
  const { attachments, activePods, migrationState } = vmi?.status ?? {};
  // A restarted target listens on other ports.
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

/** Time after which a VMI may have one more pass, in milliseconds. */
export const PASS_REFILL_MS = 1_000;
/** Limit of passes. A start takes about twenty and a plug ten. Later a libvirt that sends events all the time causes one per second. */
const PASSES = { burst: 50, refillMs: PASS_REFILL_MS };
/** Time after which the status of a VMI may be written once more, in milliseconds. */
export const WRITE_REFILL_MS = 10_000;
/** Limit of status writes. A start and a plug take three each. Later a guest whose answers keep changing causes one in 10 s. */
const WRITES = { burst: 20, refillMs: WRITE_REFILL_MS };

/** Delay before the status shows that a plug waits for its pod or for the guest, in milliseconds. Most of these waits end sooner. */
export const TRANSIENT_REPORT_DELAY_MS = 1_000;

/** Budget of operations by uid of the VMI. */
export interface Budget {
  /** Uses one operation. Returns false when none is left. A change of the VMI's inputs refills the budget. */
  take(vmi: VirtualMachineInstance): boolean;
  forget(uid: string): void;
}

function createBudget(clock: Clock, allowance: RateLimit): Budget {
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

/** Time after which the links of an iface may be created once more, in milliseconds. */
export const WIRING_REFILL_MS = 10_000;
/** Limit of creations. A plug takes one or two. Later a launcher that keeps breaking its links causes one in 10 s. */
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
