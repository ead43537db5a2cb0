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
  readonly diskRetryBudget: Budget;
  /** Monotonic time in milliseconds since which a write of a transient interface status has been postponed. The key is the VMI's UID. */
  readonly transientSince: Map<string, number>;
  /** Number of consecutive failed passes by UID of the VMI. */
  readonly failedPasses: Map<string, number>;
}

/** Serializes the fields of a VMI that other components write. When the result changes, rate limits and backoff are reset. */
export function serializeInputs(vmi: VirtualMachineInstance | undefined): string {
  const { attachments, activePods, migrationState } = vmi?.status ?? {};
  // The ports of the target's relay change when virt-handler restarts on the target's node. The source then retries at once.
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
/** Limits a VMI's reconcile passes, because a launcher's libvirt may send events continuously. A start takes about 20 passes, a plug 10. */
const PASS_LIMIT = { burst: 50, refillMs: PASS_REFILL_MS };
/** Interval after which the rate limit permits one more status write of a VMI, in milliseconds. */
export const WRITE_REFILL_MS = 10_000;
/** Limits a VMI's status writes, because a guest's reports may change continuously. A start and a plug take three writes each. */
const WRITE_LIMIT = { burst: 20, refillMs: WRITE_REFILL_MS };

/** Delay before the status shows that a plug waits for its pod or for the guest, in milliseconds. Most waits end sooner. */
export const TRANSIENT_REPORT_DELAY_MS = 1_000;

/** Rate limit of an operation, for each VMI. */
export interface Budget {
  /** Takes one operation from the VMI's budget. Returns false if the budget is empty. A change of the VMI's inputs refills the budget. */
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
/** Rate limit for creating an interface's links, because a launcher may break them repeatedly. A plug creates links once or twice. */
const WIRING_LIMIT = { burst: 10, refillMs: WIRING_REFILL_MS };

/** Interval in milliseconds after which a guest may repeat a failed disk request once more. */
export const DISK_RETRY_REFILL_MS = 30_000;
const DISK_RETRY_LIMIT = { burst: 1, refillMs: DISK_RETRY_REFILL_MS };

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
    diskRetryBudget: createBudget(clock, DISK_RETRY_LIMIT),
    transientSince: new Map(),
    failedPasses: new Map(),
  };
}
