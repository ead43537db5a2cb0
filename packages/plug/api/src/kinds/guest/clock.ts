// SPDX-License-Identifier: Apache-2.0
// The guest's clock. Source: KubeVirt api/core/v1 schema.go, type Clock.
import type { TProperties } from "typebox";
import { Type } from "../../fields/schema.ts";

const text = (description: string) => Type.Optional(Type.String({ description }));

const present = Type.Optional(
  Type.Boolean({ description: "Whether the timer is there; true when absent." }),
);
const tickPolicy = text(
  "What becomes of ticks that were missed: delay, catchup, merge or discard.",
);

const timer = <T extends TProperties>(description: string, more: T) =>
  Type.Optional(Type.Object({ present, ...more }, { description }));

/** Timers that a guest has or lacks. */
export const TimerSchema = Type.Object(
  {
    hpet: timer("High Precision Event Timer.", { tickPolicy }),
    hyperv: timer("Hyper-V reference clock.", {}),
    kvm: timer("KVM clock.", {}),
    pit: timer("Programmable Interval Timer.", { tickPolicy }),
    rtc: timer("Real Time Clock.", { tickPolicy, track: text("guest or wall.") }),
  },
  { description: "Timers that the guest has or lacks." },
);

/** What a clock shows. Source: KubeVirt ClockOffset. */
export const OFFSET_FIELDS = {
  utc: Type.Optional(
    Type.Object(
      {
        offsetSeconds: Type.Optional(
          Type.Integer({
            description: "Seconds by which the guest's clock differs from UTC; 0 when absent.",
          }),
        ),
      },
      { description: "The clock shows UTC." },
    ),
  ),
  timezone: text("Zone that the clock shows, for example Europe/Berlin."),
};

/** `spec.domain.clock`. */
export const ClockSchema = Type.Object(
  {
    ...OFFSET_FIELDS,
    timer: Type.Optional(TimerSchema),
  },
  { description: "The guest's clock; UTC when absent." },
);
