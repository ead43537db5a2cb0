// SPDX-License-Identifier: Apache-2.0
// virt-api's requests to guests of this node.
import { AppError } from "@patchbay/base";
import type { GuestRequest } from "@patchbay/core/guest";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LoopNode } from "../testing/loop-node.ts";
import { NETNS } from "../testing/bench.ts";
import { aScheduledVmi, linkNamesOf } from "../testing/scene.ts";

const KEY = { namespace: "default", name: "vm1" };
const DOMAIN = "default_vm1";
const SOON = { withinMs: 5_000 };

let node: LoopNode;

beforeEach(async () => {
  node = new LoopNode();
  await node.put(aScheduledVmi(["one"]));
  node.start();
  await eventually(() => node.isRunning, SOON);
});
afterEach(() => node.stop());

function conditions(): readonly string[] {
  return (node.vmi?.status?.conditions ?? []).map(({ type }) => type);
}

function pauseReason(): string | undefined {
  return node.vmi?.status?.conditions?.find(({ type }) => type === "Paused")?.reason;
}

function countResumes(): number {
  return node.daemon.calls.filter((each) => each === `resumeDomain ${DOMAIN}`).length;
}

test("pauses and resumes a guest, and the loop reports it", async () => {
  expect(await node.request(KEY, "pause")).toEqual({});
  await eventually(() => conditions().includes("Paused"), SOON);
  expect(await node.request(KEY, "pause")).toEqual({});
  expect(await node.request(KEY, "unpause")).toEqual({});
  await eventually(() => !conditions().includes("Paused"), SOON);
});

test("a guest that a disk error has paused stays paused if a user pauses it", async () => {
  node.daemon.failAlways("resumeDomain", new AppError("LIBVIRT_REFUSED", { message: "no" }));
  node.daemon.failDisk(DOMAIN);
  await eventually(() => pauseReason() === "PausedIOError", SOON);
  await expect(node.request(KEY, "unpause")).rejects.toThrow("no");
  expect(await node.request(KEY, "pause")).toEqual({});
  await eventually(() => pauseReason() === "PausedByUser", SOON);
  node.daemon.failAlways("resumeDomain", undefined);
  const before = countResumes();
  await node.clock.advance(120_000);
  expect(countResumes()).toBe(before);
  expect(pauseReason()).toBe("PausedByUser");
  expect(await node.request(KEY, "unpause")).toEqual({});
  await eventually(() => pauseReason() === undefined, SOON);
  node.daemon.failDisk(DOMAIN);
  await eventually(async () => {
    await node.clock.advance(1_000);
    return countResumes() > before + 1;
  }, SOON);
});

test.each<{ request: GuestRequest; call: string }>([
  { request: "reset", call: "resetDomain" },
  { request: "softreboot", call: "rebootDomain" },
])("calls libvirt once for $request", async ({ request, call }) => {
  expect(await node.request(KEY, request)).toEqual({});
  expect(node.daemon.calls.filter((each) => each === `${call} ${DOMAIN}`)).toHaveLength(1);
});

test("returns what the agent knows, although it does not support all queries", async () => {
  node.daemon.setAgent(DOMAIN, []);
  node.daemon.setGuestSystem(DOMAIN, { id: "debian" });
  node.daemon.setGuestFacts(DOMAIN, "users", { "user.count": "1", "user.0.name": "root" });
  expect(await node.request(KEY, "userlist")).toEqual({
    metadata: {},
    items: [{ userName: "root" }],
  });
  expect(await node.request(KEY, "filesystemlist")).toEqual({ metadata: {}, items: [] });
  node.daemon.failNext("readGuestFacts", new AppError("LIBVIRT_UNSUPPORTED", { message: "old" }));
  expect(await node.request(KEY, "guestosinfo")).toEqual({
    os: { id: "debian" },
    userList: [{ userName: "root" }],
    fsInfo: { disks: [] },
  });
});

test("reports a guest without an agent", async () => {
  await expect(node.request(KEY, "guestosinfo")).rejects.toMatchObject({
    code: "LIBVIRT_AGENT_UNAVAILABLE",
  });
});

test("returns the node's traffic counters from the guest's point of view", async () => {
  await expect(node.request(KEY, "interfacetraffic")).rejects.toMatchObject({
    code: "LAUNCHER_UNREACHABLE",
  });
  const { tapName } = linkNamesOf("one");
  const counts = (bytes: number) => ({ bytes, packets: 1, errors: 0, dropped: 0 });
  const ofTap = { received: counts(10), transmitted: counts(20) };
  node.linkCounters.put(NETNS, { name: tapName, ...ofTap });
  expect(await node.request(KEY, "interfacetraffic")).toEqual({
    metadata: {},
    items: [{ name: "one", received: counts(20), sent: counts(10) }],
  });
});

test("does not find a guest of another node", async () => {
  const other = { ...KEY, name: "other" };
  await expect(node.request(other, "pause")).rejects.toMatchObject({ code: "KUBE_NOT_FOUND" });
});
