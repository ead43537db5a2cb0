// SPDX-License-Identifier: Apache-2.0
// Backoff of failures, whatever wakes the loop.
import { AppError } from "@patchbay/base";
import { describe, expect, test } from "vitest";
import { createBench, type Bench } from "../../testing/bench.ts";
import { aScheduledVmi, attachment, putNic, running } from "../../testing/scene.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;

function starting(): Bench {
  const bench = createBench(aScheduledVmi(["one"]));
  putNic(bench, "one");
  return bench;
}

/** Wakes the loop twice a second. */
async function wakeFor(bench: Bench, durationMs: number): Promise<void> {
  const endMs = bench.nowMs + durationMs;
  for (; bench.nowMs < endMs; bench.nowMs += 500) await bench.wake();
}

function callsOf(bench: Bench, call: string): number {
  return bench.daemon.calls.filter((line) => line.startsWith(call)).length;
}

function writesOf(bench: Bench): number {
  return bench.store.calls.filter((call) => call.startsWith("patch")).length;
}

describe("a guest that cannot be started", () => {
  test("is tried a few times in two minutes, reported once, and runs when it can", async () => {
    const bench = starting();
    let attempts = 0;
    // Its text varies.
    const error = new AppError("LIBVIRT_REFUSED", {});
    Object.defineProperty(error, "message", { get: () => `no kernel ${String((attempts += 1))}` });
    bench.daemon.failAlways("startDomain", error);
    await wakeFor(bench, 2 * MINUTE_MS);
    expect(callsOf(bench, "startDomain")).toBeGreaterThan(4);
    expect(callsOf(bench, "startDomain")).toBeLessThan(10);
    expect(bench.events.filter((event) => event.startsWith("SyncFailed"))).toHaveLength(1);
    expect(writesOf(bench)).toBeLessThan(20);
    expect((await bench.vmi()).status?.blockedReason).toMatchObject({
      reason: "GuestNotStarted",
      attempts: callsOf(bench, "startDomain"),
    });
    bench.daemon.failAlways("startDomain", undefined);
    await wakeFor(bench, MINUTE_MS);
    expect((await bench.vmi()).status).toMatchObject({ phase: "Running" });
    expect((await bench.vmi()).status?.blockedReason).toBeUndefined();
  });

  test("is tried at once when its NICs have changed", async () => {
    const bench = createBench(
      aScheduledVmi(["one", "two"], {
        attachments: [attachment("one"), attachment("two", "Failed")],
      }),
    );
    putNic(bench, "one");
    bench.daemon.failNext("startDomain", new AppError("LIBVIRT_REFUSED", { message: "no" }));
    await bench.resume();
    putNic(bench, "two");
    await bench.edit((vmi) => ({
      ...vmi,
      status: { ...vmi.status, attachments: [attachment("one"), attachment("two")] },
    }));
    await bench.resume();
    expect((await bench.vmi()).status?.phase).toBe("Running");
  });
});

describe("a guest that a disk error has paused", () => {
  const NAME = "default_vm1";
  const isPaused = async (bench: Bench): Promise<boolean> =>
    (await bench.vmi()).status?.conditions?.some(({ type }) => type === "Paused") === true;

  test("is resumed every 30 s until its disk works", async () => {
    const bench = await running();
    for (const endMs = bench.nowMs + 2 * MINUTE_MS; bench.nowMs < endMs;) {
      bench.daemon.failDisk(NAME);
      await wakeFor(bench, 500);
    }
    expect(callsOf(bench, "resumeDomain")).toBeGreaterThanOrEqual(4);
    expect(callsOf(bench, "resumeDomain")).toBeLessThanOrEqual(6);
    await wakeFor(bench, MINUTE_MS);
    expect(await isPaused(bench)).toBe(false);
  });

  test("is not resumed if a user paused it", async () => {
    const bench = await running();
    bench.daemon.pauseDomain(NAME);
    await wakeFor(bench, 2 * MINUTE_MS);
    expect(callsOf(bench, "resumeDomain")).toBe(0);
    expect(await isPaused(bench)).toBe(true);
  });
});

describe("a libvirt that drops the connection at each read", () => {
  test.each([{ set: starting }, { set: running }])("is called a few times", async ({ set }) => {
    const bench = await set();
    const before = callsOf(bench, "readDomainXml") + callsOf(bench, "findDomain");
    bench.daemon.failAlways("findDomain", new AppError("LIBVIRT_CONNECTION_LOST", { message: "" }));
    await wakeFor(bench, 5 * MINUTE_MS);
    const reads = callsOf(bench, "readDomainXml") + callsOf(bench, "findDomain") - before;
    expect(reads).toBeGreaterThan(8);
    expect(reads).toBeLessThan(40);
    expect((await bench.vmi()).status?.blockedReason).toMatchObject({
      reason: "LauncherUnreachable",
    });
    expect(bench.events.filter((event) => event.startsWith("SyncFailed"))).toHaveLength(1);
    expect(writesOf(bench)).toBeLessThan(45);
    bench.daemon.failAlways("findDomain", undefined);
    await wakeFor(bench, 2 * MINUTE_MS);
    expect((await bench.vmi()).status).toMatchObject({ phase: "Running" });
    expect((await bench.vmi()).status?.blockedReason).toBeUndefined();
  });

  test("once is called again within a second, without a report", async () => {
    const bench = await running();
    bench.daemon.failNext("findDomain", new AppError("LIBVIRT_CONNECTION_LOST", { message: "" }));
    const before = callsOf(bench, "findDomain");
    await wakeFor(bench, SECOND_MS);
    expect(callsOf(bench, "findDomain")).toBeGreaterThan(before + 1);
    expect((await bench.vmi()).status?.blockedReason).toBeUndefined();
  });
});

test("observes once a second at most when the domain's XML varies", async () => {
  const bench = await running();
  let reads = 0;
  bench.rewriteXml = (xml) => {
    reads += 1;
    return xml.replaceAll("ua-two", `ua-x${String(reads)}`);
  };
  const writes = writesOf(bench);
  await wakeFor(bench, 20 * SECOND_MS);
  const passes = 50 + 20;
  expect(reads).toBeLessThan(passes * 4);
  expect(writesOf(bench) - writes).toBeLessThan(passes * 2);
});
