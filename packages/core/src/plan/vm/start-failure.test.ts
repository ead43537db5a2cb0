// SPDX-License-Identifier: Apache-2.0
import type { StartFailure, VmiStatus } from "@patchbay/api";
import { aVm, aVmi } from "@patchbay/testing";
import { describe, expect, test } from "vitest";
import { startFailureOf, startPauseMs, wellInMs } from "./start-failure.ts";

const NOW = "2026-01-01T01:00:00.000Z";

function at(secondsAgo: number): string {
  return new Date(Date.parse(NOW) - secondsAgo * 1000).toISOString();
}

function failed(count: number, uid = "earlier"): StartFailure {
  return { consecutiveFailCount: count, lastFailedVMIUID: uid, retryAfterTimestamp: NOW };
}

function vmWith(
  startFailure: StartFailure | undefined,
  runStrategy: "Always" | "Halted" = "Always",
) {
  const vm = aVm({ runStrategy });
  return startFailure === undefined ? vm : { ...vm, status: { startFailure } };
}

/** A guest of which was seen that it ran, so many seconds ago. */
function ranSince(secondsAgo: number, phase: VmiStatus["phase"] = "Running") {
  const running = { phase: "Running", phaseTransitionTimestamp: at(secondsAgo) } as const;
  return aVmi({ status: { ...(phase && { phase }), phaseTransitionTimestamps: [running] } });
}

describe("an early end", () => {
  test.each([
    { count: 0, pauseS: 10 },
    { count: 1, pauseS: 40 },
    { count: 2, pauseS: 90 },
    { count: 5, pauseS: 300 },
    { count: 40, pauseS: 300 },
  ])("after $count others pauses for $pauseS s", ({ count, pauseS }) => {
    const vm = vmWith(count === 0 ? undefined : failed(count));
    const failure = startFailureOf(vm, aVmi({ status: { phase: "Failed" } }), NOW);
    expect(failure).toMatchObject({ consecutiveFailCount: count + 1, lastFailedVMIUID: "vmi-uid" });
    expect(startPauseMs(failure, NOW)).toBe(pauseS * 1000);
  });

  test("is counted once, however often it is looked at", () => {
    const before = failed(3, "vmi-uid");
    expect(startFailureOf(vmWith(before), aVmi({ status: { phase: "Failed" } }), NOW)).toBe(before);
  });

  test("is one after a short run too, by itself or by a crash", () => {
    for (const phase of ["Failed", "Succeeded"] as const) {
      expect(startFailureOf(vmWith(failed(1)), ranSince(20, phase), NOW)).toMatchObject({
        consecutiveFailCount: 2,
      });
    }
  });

  test("is kept while the VM waits, and while the next guest starts", () => {
    const before = failed(2);
    expect(startFailureOf(vmWith(before), undefined, NOW)).toBe(before);
    expect(startFailureOf(vmWith(before), aVmi({ status: { phase: "Scheduled" } }), NOW)).toBe(
      before,
    );
    expect(startFailureOf(vmWith(before), ranSince(20), NOW)).toBe(before);
  });
});

describe("forgotten", () => {
  test.each([
    { name: "when a guest runs well", vm: vmWith(failed(4)), vmi: ranSince(61) },
    {
      name: "when it ran well and failed then",
      vm: vmWith(failed(4)),
      vmi: ranSince(61, "Failed"),
    },
    { name: "when nothing starts it again", vm: vmWith(failed(4), "Halted"), vmi: undefined },
  ])("$name", ({ vm, vmi }) => {
    expect(startFailureOf(vm, vmi, NOW)).toBeUndefined();
  });

  test("in time: the loop looks again when the guest has run well", () => {
    expect(wellInMs(vmWith(failed(1)), ranSince(20), NOW)).toBe(40_000);
    expect(wellInMs(vmWith(undefined), ranSince(20), NOW)).toBeUndefined();
  });
});
