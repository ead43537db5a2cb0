// SPDX-License-Identifier: Apache-2.0
import type { RunStrategy, StartFailure, VirtualMachine, VmiStatus } from "@patchbay/api";
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import {
  trackStartFailure,
  computeStartBackoffMs,
  computeSuccessDelayMs,
} from "./start-failure.ts";

const NOW = "2026-01-01T01:00:00.000Z";

function at(secondsAgo: number): string {
  return new Date(Date.parse(NOW) - secondsAgo * 1000).toISOString();
}

function failed(count: number, uid = "earlier"): StartFailure {
  return { consecutiveFailCount: count, lastFailedVMIUID: uid, retryAfterTimestamp: NOW };
}

function vmWith(
  startFailure: StartFailure | undefined,
  runStrategy: RunStrategy = "Always",
): VirtualMachine {
  const options = aVm();
  const vm = { ...options, spec: { ...options.spec, runStrategy } };
  return startFailure === undefined ? vm : { ...vm, status: { startFailure } };
}

/** A guest of which was seen that it ran, so many seconds ago. */
function ranSince(secondsAgo: number, phase: VmiStatus["phase"] = "Running") {
  const running = { phase: "Running", phaseTransitionTimestamp: at(secondsAgo) } as const;
  return aVmi({ status: { ...(phase && { phase }), phaseTransitionTimestamps: [running] } });
}

function evicted(secondsAgo: number) {
  const vmi = ranSince(secondsAgo, "Failed");
  return { ...vmi, status: { ...vmi.status, reason: "Evicted" } };
}

describe("a start failure", () => {
  test.each([
    { count: 0, pauseS: 10 },
    { count: 1, pauseS: 40 },
    { count: 2, pauseS: 90 },
    { count: 5, pauseS: 300 },
    { count: 40, pauseS: 300 },
  ])("after $count earlier failures delays the next start by $pauseS s", ({ count, pauseS }) => {
    const vm = vmWith(count === 0 ? undefined : failed(count));
    const failure = trackStartFailure(vm, aVmi({ status: { phase: "Failed" } }), NOW);
    expect(failure).toMatchObject({ consecutiveFailCount: count + 1, lastFailedVMIUID: "vmi-uid" });
    expect(computeStartBackoffMs(failure, NOW)).toBe(pauseS * 1000);
  });

  test("is counted once, however often it is observed", () => {
    const before = failed(3, "vmi-uid");
    expect(trackStartFailure(vmWith(before), aVmi({ status: { phase: "Failed" } }), NOW)).toBe(
      before,
    );
  });

  test("includes a crash after a short run", () => {
    expect(trackStartFailure(vmWith(failed(1)), ranSince(20, "Failed"), NOW)).toMatchObject({
      consecutiveFailCount: 2,
    });
  });

  test("includes a guest that was never observed running", () => {
    const vmi = aVmi({ status: { phase: "Succeeded" } });
    expect(trackStartFailure(vmWith(failed(1)), vmi, NOW)).toMatchObject({
      consecutiveFailCount: 2,
    });
  });

  test.each([undefined, failed(2)])("does not include a requested end: after %j", (before) => {
    for (const phase of ["Failed", "Succeeded"] as const) {
      const options = ranSince(20, phase);
      const vmi = { ...options, metadata: { ...options.metadata, deletionTimestamp: at(5) } };
      expect(trackStartFailure(vmWith(before), vmi, NOW)).toBe(before);
    }
  });

  test("is retained while the VM waits and while the next guest starts", () => {
    const before = failed(2);
    expect(trackStartFailure(vmWith(before), undefined, NOW)).toBe(before);
    expect(trackStartFailure(vmWith(before), aVmi({ status: { phase: "Scheduled" } }), NOW)).toBe(
      before,
    );
    expect(trackStartFailure(vmWith(before), ranSince(20), NOW)).toBe(before);
  });
});

describe("start failures are forgotten", () => {
  test.each([
    { name: "when a guest runs well", vmi: () => ranSince(60) },
    { name: "when it ran well and failed afterwards", vmi: () => ranSince(61, "Failed") },
    { name: "when it ran and was evicted", vmi: () => evicted(1) },
    { name: "when it ran and has shut down", vmi: () => ranSince(1, "Succeeded") },
    { name: "when it is not started again", strategy: "Halted", vmi: () => undefined },
    {
      name: "when it has shut down under RerunOnFailure",
      strategy: "RerunOnFailure",
      vmi: () => ranSince(1, "Succeeded"),
    },
  ] as const)("$name", (row) => {
    const vm = vmWith(failed(4), "strategy" in row ? row.strategy : "Always");
    expect(trackStartFailure(vm, row.vmi(), NOW)).toBeUndefined();
  });

  test.each([undefined, "Scheduled", "Failed"] as const)(
    "but not with RerunOnFailure while the guest is %s",
    (phase) => {
      const vm = vmWith(failed(4), "RerunOnFailure");
      const vmi = phase === undefined ? aVmi() : ranSince(1, phase);
      expect(trackStartFailure(vm, vmi, NOW)).toBeDefined();
    },
  );

  test("but not after a short run, however long the start took", () => {
    const phaseTransitionTimestamps = [
      { phase: "Scheduled", phaseTransitionTimestamp: at(600) } as const,
      { phase: "Running", phaseTransitionTimestamp: at(300) } as const,
      { phase: "Failed", phaseTransitionTimestamp: at(290) } as const,
    ];
    const vmi = aVmi({ status: { phase: "Failed", phaseTransitionTimestamps } });
    expect(trackStartFailure(vmWith(failed(1)), vmi, NOW)).toMatchObject({
      consecutiveFailCount: 2,
    });
  });

  test.each([undefined, {}, { phase: "Scheduled" } as const])(
    "at no time while the guest does not run: %j",
    (status) => {
      const vmi = status === undefined ? aVmi() : aVmi({ status });
      expect(computeSuccessDelayMs(vmWith(failed(1)), vmi, NOW)).toBeUndefined();
      expect(computeSuccessDelayMs(vmWith(failed(1)), undefined, NOW)).toBeUndefined();
    },
  );

  test("in time: the loop looks again when the guest has run well", () => {
    expect(computeSuccessDelayMs(vmWith(failed(1)), ranSince(20), NOW)).toBe(40_000);
    expect(computeSuccessDelayMs(vmWith(undefined), ranSince(20), NOW)).toBeUndefined();
  });
});
