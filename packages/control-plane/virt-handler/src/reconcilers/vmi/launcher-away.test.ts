// SPDX-License-Identifier: Apache-2.0
// Reports about VMIs whose launcher is unavailable.
import { AppError } from "@patchbay/base";
import { describe, expect, test } from "vitest";
import { createBench, type Bench } from "../../testing/bench.ts";
import { aScheduledVmi, running, without } from "../../testing/scene.ts";

const lost = new AppError("LIBVIRT_CONNECTION_LOST", { message: "gone" });

async function blockedReason(bench: Bench): Promise<unknown> {
  return (await bench.vmi()).status?.blockedReason;
}

/** Passes that fail because libvirt drops the connection at the first call. */
async function fail(bench: Bench, times: number, error: AppError = lost): Promise<void> {
  for (let pass = 0; pass < times; pass += 1) {
    bench.daemon.failNext("findDomain", error);
    bench.nowMs += 60_000;
    await bench.wake();
  }
}

describe("a launcher that does not exist yet", () => {
  test("wakes the loop when its socket appears", async () => {
    const bench = createBench(aScheduledVmi([]));
    bench.launcher.stop();
    expect(await bench.resume()).toEqual([]);
    expect(bench.next).toEqual({ kind: "done" });
    expect(bench.log.lines).toContainEqual({
      level: "debug",
      message: "launcher is not reachable",
      fields: { vmi: "default/vm1", reason: expect.stringContaining("no socket") as string },
    });
    expect(await blockedReason(bench)).toBeUndefined();
  });

  test("is reported for the ifaces that wait for it only", async () => {
    const bench = await running();
    await bench.edit((vmi) => without(vmi, "one"));
    bench.launcher.stop();
    await bench.run();
    const hotplugs = (await bench.vmi()).status?.interfaces?.map(({ hotplug }) => hotplug);
    expect(hotplugs).toMatchObject([
      { phase: "Detaching", reason: "LauncherUnreachable" },
      { phase: "Ready" },
    ]);
    expect(hotplugs?.[1]).not.toHaveProperty("reason");
  });

  test("is not reported for a VMI that is being deleted", async () => {
    const bench = await running();
    await bench.edit((vmi) => ({
      ...without(vmi, "one"),
      metadata: { ...vmi.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
    }));
    bench.launcher.stop();
    const before = await bench.vmi();
    await bench.run();
    expect(await bench.vmi()).toEqual(before);
  });

  test("is not reported for the ifaces of a VMI that does not run yet", async () => {
    const bench = createBench(aScheduledVmi(["one"]));
    bench.launcher.stop();
    await bench.resume();
    expect((await bench.vmi()).status?.interfaces).toBeUndefined();
  });
});

test("rejects invalid domain XML with its fault", async () => {
  const bench = await running();
  bench.rewriteXml = () => "<network/>";
  expect(await bench.resume()).toMatchObject([
    { code: "DOMAIN_XML_INVALID", details: { reason: expect.any(String) as string } },
  ]);
});

describe("a failing launcher", () => {
  test("blocks the VMI in the status from the third failure on", async () => {
    const bench = await running();
    await fail(bench, 2);
    expect(await blockedReason(bench)).toBeUndefined();
    await fail(bench, 1);
    expect(await blockedReason(bench)).toMatchObject({
      reason: "LauncherUnreachable",
      attempts: 1,
    });
    const [note] = bench.notes.filter(({ reason }) => reason === "SyncFailed");
    expect(note?.message).toMatch(/^the guest cannot be managed: /);
    await fail(bench, 1);
    expect(bench.notes.filter(({ reason }) => reason === "SyncFailed")).toHaveLength(1);
    bench.nowMs += 60_000;
    await bench.wake();
    expect(await blockedReason(bench)).toBeUndefined();
  });

  test("is reported with the reason of an unavailable container runtime", async () => {
    const bench = await running();
    await fail(bench, 3, new AppError("CRI_UNAVAILABLE", { endpoint: "unix:///x", reason: "no" }));
    expect(await blockedReason(bench)).toMatchObject({
      reason: "RuntimeUnavailable",
      message: expect.stringMatching(/unix:\/\/\/x.*--cri-endpoint/) as string,
    });
  });

  test("is counted afresh after a success", async () => {
    const bench = await running();
    await fail(bench, 2);
    bench.nowMs += 60_000;
    await bench.wake();
    await fail(bench, 2);
    expect(await blockedReason(bench)).toBeUndefined();
  });

  test("does not change the reported state while it is unavailable", async () => {
    const bench = await running();
    await fail(bench, 3);
    const before = await blockedReason(bench);
    bench.launcher.stop();
    await bench.run();
    expect(before).toBeDefined();
    expect(await blockedReason(bench)).toEqual(before);
  });

  test.each(["PODNET_FAILED", "DOMAIN_XML_INVALID"] as const)("also by %s", async (code) => {
    const bench = await running();
    const passes = [1, 2, 3];
    for (const pass of passes) {
      bench.podNetwork.failNext("observe", new AppError(code, { message: String(pass) }));
      await bench.resume();
    }
    expect(bench.notes.filter(({ reason }) => reason === "SyncFailed")).toHaveLength(1);
  });
});

test.each([new AppError("KUBE_UNREACHABLE", {}), new Error("a bug")])(
  "rethrows %s, which is no launcher error, without a report",
  async (error) => {
    const bench = await running();
    const before = await bench.vmi();
    for (let pass = 0; pass < 4; pass += 1) {
      bench.podNetwork.failNext("observe", error);
      expect(await bench.resume()).toEqual([error]);
    }
    expect(await bench.vmi()).toEqual(before);
  },
);
