// SPDX-License-Identifier: Apache-2.0
// The timers of a VMI's domain. Source: KubeVirt api/core/v1 schema.go, type Timer.
import type { VmiSpec } from "@patchbay/api";
import type { DomainDefinition } from "@patchbay/domain";
import { TICK_POLICIES, TRACKS, wordOf } from "./words.ts";

type Timers = NonNullable<NonNullable<VmiSpec["domain"]["clock"]>["timer"]>;
type Timer = DomainDefinition["clock"]["timers"][number];

const NAMES = {
  rtc: "rtc",
  pit: "pit",
  kvm: "kvmclock",
  hpet: "hpet",
  hyperv: "hypervclock",
} as const satisfies Readonly<Record<keyof Timers, Timer["name"]>>;

const KINDS = ["rtc", "pit", "kvm", "hpet", "hyperv"] as const satisfies readonly (keyof Timers)[];

interface AnyTimer {
  readonly present?: boolean;
  readonly tickPolicy?: string;
  readonly track?: string;
}

/** The timers that are named; each is there unless it says otherwise. */
export function timersOf(timers: Timers): readonly Timer[] {
  return KINDS.flatMap((kind) => {
    const timer: AnyTimer | undefined = timers[kind];
    if (timer === undefined) return [];
    const tickPolicy = wordOf(TICK_POLICIES, timer.tickPolicy);
    const track = wordOf(TRACKS, timer.track);
    return [
      {
        name: NAMES[kind],
        isPresent: timer.present !== false,
        ...(tickPolicy === undefined ? {} : { tickPolicy }),
        ...(track === undefined ? {} : { track }),
      },
    ];
  });
}
