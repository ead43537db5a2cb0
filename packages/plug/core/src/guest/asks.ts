// SPDX-License-Identifier: Apache-2.0
// When it is worth asking a guest's agent. libvirt tells no event when a guest names a NIC or takes an address.

/** What was asked of one guest since something changed that it may have words for. */
export interface AskHistory {
  readonly changedAgoMs: number;
  /** Questions since then. */
  readonly asks: number;
  /** Since the last question of them; counts when there was one. */
  readonly askedAgoMs: number;
  /** Questions in a row that were not answered. */
  readonly failures: number;
}

/**
 * How long after a change the guest is asked, milliseconds: it has a new NIC after 80 ms (measured, Linux 6.1), udev may
 * give it another name within seconds, a slow guest takes longer.
 */
const ASK_AFTER_MS: readonly number[] = [500, 3_000, 15_000, 60_000];
/** And then for good: somebody in the guest may add an address. Source of the pace: KubeVirt's agent poller. */
const ASK_EVERY_MS = 120_000;
/** A question without an answer is repeated soon, because two in a row show that the agent hangs. */
const REPEAT_AFTER_MS = 15_000;
/** An agent that listens and does not answer is asked less and less: each question holds up its own VM for 2 s. */
const ASK_EVERY_MAX_MS = 960_000;

/** Milliseconds until the guest is to be asked again, 0 for now. */
export function nextAskInMs({ changedAgoMs, asks, askedAgoMs, failures }: AskHistory): number {
  const soonMs = ASK_AFTER_MS[asks];
  if (soonMs !== undefined) return Math.max(0, soonMs - changedAgoMs);
  if (failures === 1) return Math.max(0, REPEAT_AFTER_MS - askedAgoMs);
  const everyMs = Math.min(ASK_EVERY_MAX_MS, ASK_EVERY_MS * 2 ** Math.min(failures, 10));
  return Math.max(0, everyMs - askedAgoMs);
}
