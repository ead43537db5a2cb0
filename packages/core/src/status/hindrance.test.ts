// SPDX-License-Identifier: Apache-2.0
import { aVmi } from "@patchbay/testing";
import { describe, expect, test } from "vitest";
import { AppError } from "../errors/app-error.ts";
import { hindranceOfFailure, hindranceOfWait, requestsReported } from "./hindrance.ts";

describe("an unplug waits", () => {
  const wait = { kind: "wait", iface: "one", reason: "GuestRefused" } as const;

  test.each([
    { asked: 1, isPaused: false, want: "WaitingForGuest", says: /was asked/ },
    { asked: 2, isPaused: false, want: "WaitingForGuest", says: /was asked/ },
    { asked: 3, isPaused: false, want: "GuestRefused", says: /asked 3 times.*reset it/ },
    { asked: 9, isPaused: true, want: "WaitingForGuest", says: /is paused.*resumed/ },
  ])("for a guest asked $asked times, paused: $isPaused", ({ asked, isPaused, want, says }) => {
    const facts = { pciAddresses: [], controllers: [], nics: [] };
    // Nothing else of the domain is looked at.
    const domain = { running: true, isPaused, crashed: false, facts } as never;
    const hindrance = hindranceOfWait(wait, asked, { vmi: aVmi({}), domain });
    expect(hindrance).toMatchObject({ reason: want, attempts: asked });
    expect(hindrance.message).toMatch(says);
  });
});

describe("requests of a process that is gone", () => {
  const reported = { phase: "Detaching", attempts: 4 };

  test.each([
    { name: "a wait", hotplug: { ...reported, reason: "WaitingForGuest" }, want: 4 },
    { name: "a refusal", hotplug: { ...reported, reason: "GuestRefused" }, want: 4 },
    { name: "no request", hotplug: { ...reported, reason: "DomainBusy" }, want: 0 },
    {
      name: "an older unplug",
      hotplug: { ...reported, phase: "Ready", reason: "GuestRefused" },
      want: 0,
    },
  ])("are counted of $name: $want", ({ hotplug, want }) => {
    // Literals of the row are members of the unions.
    expect(requestsReported({ name: "one", hotplug } as never)).toBe(want);
  });
});

describe("attempts", () => {
  const reported = { name: "one", hotplug: { type: "Unplug", phase: "Detaching", attempts: 4 } };

  test.each([
    { name: "go on in the same phase", step: "detachDevice", want: 5 },
    { name: "begin anew in the next", step: "unwireTap", want: 1 },
  ] as const)("$name", ({ step, want }) => {
    const error = new AppError("LIBVIRT_REFUSED", {});
    // Literals of the row are members of the unions.
    expect(hindranceOfFailure(step, error, reported as never).attempts).toBe(want);
  });
});
