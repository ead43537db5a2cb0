// SPDX-License-Identifier: Apache-2.0
// How often one VM is worked on, and how soon after a failure.
import type { VirtualMachineInstance } from "@patchbay/api";
import type { Hindrance } from "@patchbay/core";
import {
  createPauses,
  createTokenBuckets,
  specVersionOf,
  type Allowance,
  type Pauses,
  type TokenBuckets,
} from "@patchbay/kube";
import type { Clock } from "@patchbay/core/ports";

/** What holds the loop back. Lost at a restart, after which all is tried at once. */
export interface Pace {
  /** Steps that failed, by VMI uid. */
  readonly steps: Pauses<Hindrance>;
  readonly passes: Budget;
  /** Of the status. */
  readonly writes: Budget;
  readonly wirings: Wirings;
  /** Since when there is news that may be over in a moment, by VMI uid; monotonic milliseconds. */
  readonly transientSince: Map<string, number>;
  /** How many passes in a row failed, by VMI uid; the queue leaves the key alone meanwhile. */
  readonly failures: Map<string, number>;
}

/** What others say that is to be done with a VMI, and where. */
export function givenTo(vmi: VirtualMachineInstance | undefined): string {
  const { attachments, activePods, migrationState: move } = vmi?.status ?? {};
  // A target that was started anew listens at other ports.
  const { migrationUid, targetDirectMigrationNodePorts: ports, abortRequested } = move ?? {};
  const ofMove = [migrationUid, ports, abortRequested, move?.sourceEndedTimestamp];
  return JSON.stringify([specVersionOf(vmi), attachments, activePods, ofMove]);
}

/** Time in which a VMI may have one pass more, milliseconds. */
export const PASS_REFILL_MS = 1_000;
/** A start takes about twenty passes, a plug ten; then once a second, for a libvirt that never stops waking us. */
const PASSES = { burst: 50, refillMs: PASS_REFILL_MS };
/** Time in which the status of a VMI may be written once more, milliseconds. */
export const WRITE_REFILL_MS = 10_000;
/** A start takes three writes, a plug three; then one in a while, for a guest or a libvirt that never says the same twice. */
const WRITES = { burst: 20, refillMs: WRITE_REFILL_MS };

/** For so long it is not told that a plug waits for its pod or that a guest is asked, milliseconds; most have ended by then. */
export const TRANSIENT_MS = 1_000;

/** What each VMI may have so many of, by its uid. */
export interface Budget {
  /** Takes one; false: it has had enough for now. What others say anew gives it all of them again. */
  take(vmi: VirtualMachineInstance): boolean;
  forget(uid: string): void;
}

function createBudget(clock: Clock, allowance: Allowance): Budget {
  const buckets = createTokenBuckets(clock, allowance);
  const known = new Map<string, string>();
  return {
    take(vmi): boolean {
      const { uid = "" } = vmi.metadata;
      const given = givenTo(vmi);
      if (known.get(uid) !== given) buckets.forget(uid);
      known.set(uid, given);
      return buckets.take(uid);
    },
    forget(uid): void {
      known.delete(uid);
      buckets.forget(uid);
    },
  };
}

/** Time in which the links of an iface may be made once more, milliseconds. */
export const WIRING_REFILL_MS = 10_000;
/** A plug takes one or two; then one in a while, for a launcher that spoils them again and again. */
const WIRINGS = { burst: 10, refillMs: WIRING_REFILL_MS };

/** How often the links of each iface may be made. */
export interface Wirings {
  /** Takes one; false: they were made often enough for now. What others say anew gives all of them again. */
  take(vmi: VirtualMachineInstance, iface: string): boolean;
  forget(uid: string): void;
}

function createWirings(clock: Clock): Wirings {
  const known = new Map<string, { readonly given: string; readonly buckets: TokenBuckets }>();
  return {
    take(vmi, iface): boolean {
      const { uid = "" } = vmi.metadata;
      const given = givenTo(vmi);
      const last = known.get(uid);
      const buckets = last?.given === given ? last.buckets : createTokenBuckets(clock, WIRINGS);
      known.set(uid, { given, buckets });
      return buckets.take(iface);
    },
    forget(uid): void {
      known.delete(uid);
    },
  };
}

/** A pace that holds nothing back yet. */
export function createPace(clock: Clock): Pace {
  return {
    steps: createPauses({ clock }),
    passes: createBudget(clock, PASSES),
    writes: createBudget(clock, WRITES),
    wirings: createWirings(clock),
    transientSince: new Map(),
    failures: new Map(),
  };
}
