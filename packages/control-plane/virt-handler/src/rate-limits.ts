// SPDX-License-Identifier: Apache-2.0
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

/** Rate limits and backoff. They are not persisted, so that a restarted process retries all steps immediately. */
export interface RateLimits {
  /** Backoff of failed steps, by UID of the VMI. */
  readonly stepBackoff: StepBackoff<BlockedReason>;
  readonly passBudget: Budget;
  readonly writeBudget: Budget;
  readonly wiringBudget: WiringBudget;
  /** Monotonic milliseconds since which writes of transient interface statuses are postponed, by VMI UID. */
  readonly transientSince: Map<string, number>;
  /** Number of consecutive failed passes by UID of the VMI. */
  readonly failedPasses: Map<string, number>;
}

/** Serializes fields that other components write. A changed result resets rate limits and backoff. */
export function serializeInputs(vmi: VirtualMachineInstance | undefined): string {
  const { attachments, activePods, migrationState } = vmi?.status ?? {};
  // The target's relay ports change when virt-handler restarts there. The source then retries at once.
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

/** Interval after which the rate limit permits one more reconcile pass of a VMI, in milliseconds. */
export const PASS_REFILL_MS = 1_000;
/** Limits passes, because a launcher may send endless events. Starts take about 20 passes, plugs 10. */
const PASS_LIMIT = { burst: 50, refillMs: PASS_REFILL_MS };
/** Interval after which the rate limit permits one more status write of a VMI, in milliseconds. */
export const WRITE_REFILL_MS = 10_000;
/** Limits status writes, because guests' reports may change endlessly. Starts and plugs take three writes each. */
const WRITE_LIMIT = { burst: 20, refillMs: WRITE_REFILL_MS };

/** Delay in milliseconds before the status shows a plug's wait. Most waits end sooner. */
export const TRANSIENT_REPORT_DELAY_MS = 1_000;

/** Rate limit of an operation, for each VMI. */
export interface Budget {
  /** Takes one operation; returns false if the budget is empty. Changed VMI inputs refill the budget. */
  take(vmi: VirtualMachineInstance): boolean;
  forget(uid: string): void;
}

function createBudget(clock: Clock, allowance: RateLimit): Budget {
  const buckets = createTokenBuckets(clock, allowance);
  const inputsByUid = new Map<string, string>();
  return {
    take(vmi): boolean {
      const { uid = "" } = vmi.metadata;
      const inputs = serializeInputs(vmi);
      if (inputsByUid.get(uid) !== inputs) buckets.forget(uid);
      inputsByUid.set(uid, inputs);
      return buckets.take(uid);
    },
    forget(uid): void {
      inputsByUid.delete(uid);
      buckets.forget(uid);
    },
  };
}

/** Interval in milliseconds after which the rate limit permits one more creation of an interface's links. */
export const WIRING_REFILL_MS = 10_000;
/** Limits link creation, because launchers may break links repeatedly. A plug creates links at most twice. */
const WIRING_LIMIT = { burst: 10, refillMs: WIRING_REFILL_MS };

interface WiringBudget {
  take(vmi: VirtualMachineInstance, iface: string): boolean;
  forget(uid: string): void;
}

function createWiringBudget(clock: Clock): WiringBudget {
  const entries = new Map<string, { readonly inputs: string; readonly buckets: TokenBuckets }>();
  return {
    take(vmi, iface): boolean {
      const { uid = "" } = vmi.metadata;
      const inputs = serializeInputs(vmi);
      const previous = entries.get(uid);
      const buckets =
        previous?.inputs === inputs ? previous.buckets : createTokenBuckets(clock, WIRING_LIMIT);
      entries.set(uid, { inputs, buckets });
      return buckets.take(iface);
    },
    forget(uid): void {
      entries.delete(uid);
    },
  };
}

export function createRateLimits(clock: Clock): RateLimits {
  return {
    stepBackoff: createStepBackoff({ clock }),
    passBudget: createBudget(clock, PASS_LIMIT),
    writeBudget: createBudget(clock, WRITE_LIMIT),
    wiringBudget: createWiringBudget(clock),
    transientSince: new Map(),
    failedPasses: new Map(),
  };
}
