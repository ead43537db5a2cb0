// SPDX-License-Identifier: Apache-2.0
// State of the node's VMs between passes. A restart loses it, which is harmless.
import type { DeviceTaps } from "@patchbay/core";
import type { Clock } from "@patchbay/core/ports";
import { createGuests, type Guests } from "./guests.ts";
import { createPace, type Pace } from "./pace.ts";
import type { Taps } from "./metrics/plugs.ts";
import { createStories, type Stories } from "./stories.ts";
import { createUnplugRequests, type UnplugRequests } from "./unplug-requests.ts";

/** Everything here is keyed by the VMI's uid and dropped with the VMI. */
export interface Memory extends Pace {
  readonly unplugRequests: UnplugRequests;
  readonly guests: Guests;
  /** Taps that devices were observed with, by VMI uid. */
  readonly deviceTaps: Map<string, DeviceTaps>;
  readonly taps: Taps;
  readonly stories: Stories;
}

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
