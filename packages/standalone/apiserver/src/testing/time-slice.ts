// SPDX-License-Identifier: Apache-2.0
import type { Clock } from "@patchbay/base";
import { createFakeClock } from "@patchbay/os/testing";
import type { User } from "../auth/user.ts";
import { FairQueue, TimeSlice } from "../limits/fair-queue.ts";
import { LIMITS, UserQuotas } from "../limits/limits.ts";

const { signal: NEVER } = new AbortController();

/** A time slice of a client that stays connected. */
export function openTimeSlice(
  user: User,
  options: { readonly clock?: Clock; readonly thread?: UserQuotas["waitForThread"] } = {},
): TimeSlice {
  const { clock = createFakeClock() } = options;
  const limiterDeps = { clock, stop: NEVER };
  const quotas = new UserQuotas(LIMITS, limiterDeps);
  const { thread: waitForThread = quotas.waitForThread.bind(quotas) } = options;
  const deps = { clock, fairQueue: new FairQueue(limiterDeps), quotas: { waitForThread } };
  return new TimeSlice(deps, { user, closed: NEVER });
}
