// SPDX-License-Identifier: Apache-2.0
// Starts of guests with hooks.
import { parseDomain } from "@patchbay/domain/parse";
import { expect, test } from "vitest";
import { createBench, type Bench } from "../../testing/bench.ts";
import { aScheduledVmi, devicesOf, putNic, withCloudInit } from "../../testing/scene.ts";

const HOOK = "hook-sidecar-0";
const DOMAIN = "default_vm1";

function hooked(onDefineDomain: (xml: string) => string | Promise<string>): Bench {
  const bench = createBench(aScheduledVmi(["one"]));
  putNic(bench, "one");
  const hookPoints = [{ name: "OnDefineDomain", priority: 0 }];
  const info = { name: "marks", versions: ["v1alpha2"], hookPoints };
  bench.hooks.put("pod-uid", HOOK, { info, onDefineDomain });
  bench.launcher.start(HOOK);
  return bench;
}

/** Runs passes until the hooks have answered in the background. */
async function settle(bench: Bench): Promise<void> {
  await bench.run();
  await expect.poll(() => bench.hooks.openCount).toBe(0);
  await bench.resume();
}

async function blockedReason(bench: Bench) {
  return (await bench.vmi()).status?.blockedReason;
}

test("defines the domain that the hook returns, with unchanged NICs", async () => {
  const { promise: thought, resolve } = Promise.withResolvers<undefined>();
  const bench = hooked(async (xml) => {
    await thought;
    return xml.replace("</os>", "<smbios mode='sysinfo'/></os>");
  });
  await bench.run();
  expect(await blockedReason(bench)).toMatchObject({
    reason: "WaitingForHooks",
    message: "the guest starts when these hooks have replied: hook-sidecar-0",
  });
  expect(bench.daemon.readXml(DOMAIN, "config")).toBeUndefined();
  resolve(undefined);
  await settle(bench);
  expect(bench.daemon.readXml(DOMAIN, "config")).toContain('<smbios mode="sysinfo"/>');
  expect(devicesOf(bench)).toEqual(["ua-one"]);
  expect((await bench.vmi()).status?.phase).toBe("Running");
  expect(await blockedReason(bench)).toBeUndefined();
  expect(bench.events.filter((event) => event.includes("Hook"))).toEqual([]);
});

test("creates the cloud-init disk from the hook's answer before the guest starts", async () => {
  const bench = createBench(withCloudInit(aScheduledVmi(["one"]), "#!/bin/sh\n# of its owner"));
  putNic(bench, "one");
  const hookPoints = [{ name: "PreCloudInitIso", priority: 0 }];
  bench.hooks.put("pod-uid", HOOK, {
    info: { name: "users", versions: ["v1alpha3"], hookPoints },
    preCloudInitIso: (given) => ({ ...given, data: given.data.replace("of its owner", "hooked") }),
  });
  bench.launcher.start(HOOK);
  await settle(bench);
  const disk = Buffer.from(bench.launcherDisks.files.get("pod-uid/init.iso") ?? []).toString();
  expect(disk).toContain("#!/bin/sh\n# hooked");
  expect((await bench.vmi()).status?.phase).toBe("Running");
});

test("does not call hooks for a running guest", async () => {
  const bench = hooked((xml) => xml);
  await settle(bench);
  const { length } = bench.hooks.calls;
  await bench.run();
  await bench.wake();
  expect(bench.hooks.calls).toHaveLength(length);
});

test("does not start a guest whose hook removes a NIC, and reports why", async () => {
  const bench = hooked((xml) => xml.replace(/<interface.*<\/interface>/s, ""));
  await settle(bench);
  expect(bench.daemon.readXml(DOMAIN, "config")).toBeUndefined();
  const told = await blockedReason(bench);
  expect(told).toMatchObject({ reason: "HookAnswerRefused", attempts: 1 });
  expect(told?.message).toContain(
    "the answer of hook marks (hook-sidecar-0) to OnDefineDomain was refused: /domain/devices/interface[ua-one]: a hook cannot take it away",
  );
  const warned =
    "SyncFailed the guest cannot be started: the answer of hook marks (hook-sidecar-0) to OnDefineDomain was refused";
  expect(bench.events).toEqual([expect.stringContaining(warned)]);
});

test("calls a failed hook again after a backoff, and the guest starts then", async () => {
  let isBroken = true;
  const bench = hooked((xml) => {
    if (isBroken) throw new Error("no board");
    return xml;
  });
  await settle(bench);
  expect(await blockedReason(bench)).toMatchObject({ reason: "HookFailed", attempts: 1 });
  const { length } = bench.hooks.calls;
  await bench.wake();
  expect(bench.hooks.calls).toHaveLength(length);
  isBroken = false;
  bench.nowMs += 600_000;
  await settle(bench);
  expect(parseDomain(bench.daemon.readXml(DOMAIN, "live") ?? "").ok).toBe(true);
});

test("notifies the hooks once that the guest has ended", async () => {
  let ends = 0;
  const bench = hooked((xml) => xml);
  const info = {
    name: "e",
    versions: ["v1alpha3"],
    hookPoints: [{ name: "Shutdown", priority: 0 }],
  };
  const shutdown = (): void => {
    ends += 1;
  };
  await settle(bench);
  bench.hooks.put("pod-uid", HOOK, { info, shutdown });
  bench.daemon.endDomain(DOMAIN, "stopped");
  await bench.wake();
  await bench.wake();
  await expect.poll(() => [bench.hooks.openCount, ends]).toEqual([0, 1]);
});
