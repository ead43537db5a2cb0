// SPDX-License-Identifier: Apache-2.0
// What the process remembers of the VMs of its node from pass to pass. Lost at a restart, which does no harm.
import type { DeviceTaps } from "@patchbay/core";
import type { Clock } from "@patchbay/core/ports";
import { createGuests, type Guests } from "./guests.ts";
import { createPace, type Pace } from "./pace.ts";
import type { Taps } from "./metrics/plugs.ts";
import { createStories, type Stories } from "./stories.ts";
import { createUnplugRequests, type UnplugRequests } from "./unplug-requests.ts";

/** All of it is kept by the uid of the VMI, and forgotten with that. */
export interface Memory extends Pace {
  readonly unplugRequests: UnplugRequests;
  readonly guests: Guests;
  /** Taps with which devices were seen, by VMI uid. */
  readonly deviceTaps: Map<string, DeviceTaps>;
  readonly taps: Taps;
  readonly stories: Stories;
}

/** The memory of a process that was just started. */
export function createMemory(clock: Clock): Memory {
  return {
    ...createPace(clock),
    unplugRequests: createUnplugRequests(clock),
    guests: createGuests(clock),
    deviceTaps: new Map(),
    taps: new Map(),
    stories: createStories(clock),
  };
}

/** Nothing is left of a VMI: one of that uid would begin anew. */
export function forgetVmi(uid: string, memory: Memory): void {
  memory.steps.forget(uid);
  memory.passes.forget(uid);
  memory.writes.forget(uid);
  memory.wirings.forget(uid);
  memory.transientSince.delete(uid);
  memory.failures.delete(uid);
  memory.unplugRequests.retain(uid, []);
  memory.guests.forget(uid);
  memory.deviceTaps.delete(uid);
  memory.taps.delete(uid);
  memory.stories.forget(uid);
}
