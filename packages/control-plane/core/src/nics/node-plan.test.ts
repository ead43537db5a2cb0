// SPDX-License-Identifier: Apache-2.0
// A NIC that speaks vhost-user is plugged where the guest and the socket are fit for it, and waits with a reason else.
import { printNic } from "@patchbay/domain";
import { describe, expect, test } from "vitest";
import type { IfaceFacts, LinkFacts } from "./facts.ts";
import { blockedReasonOfWait } from "../status/blocked-reason.ts";
import {
  aDomain,
  anIface,
  factsOf,
  live,
  MAC,
  plan,
  running,
  listSteps,
  type IfaceOptions,
} from "../testing/node-scene.ts";
import { computeUnplugRetryMs } from "./node-plan.ts";

const PATH = "/run/patchbay/vhost-user/uid/pod0a.sock";
const FOUND: Partial<LinkFacts> = { hasPodInterface: true };
const READY: Partial<LinkFacts> = { ...FOUND, isWired: true };
const WORKS: Partial<LinkFacts> = { ...READY, isTapOpen: true };
const DEVICE = { pciAddress: "0000:01:00.0", isVhostUser: true } as const;
const deviceInfo = {
  type: "vhost-user",
  version: "1.1.0",
  "vhost-user": { mode: "client", path: PATH },
};
const PREPARED = { domain: running({ ...aDomain(), hasNoNicVectors: true }) };

function fast(links: Partial<LinkFacts>, more: IfaceOptions = {}): IfaceFacts {
  const iface = anIface({
    iface: { binding: { name: "fast" } },
    binding: { kind: "vhostuser" },
    attachment: "Attached",
    links,
    ...more,
  });
  const { attachment } = iface;
  return attachment === undefined ? iface : { ...iface, attachment: { ...attachment, deviceInfo } };
}

const linked = {
  kind: "linkSocket",
  iface: "a",
  socket: { podInterfaceName: "pod0a", path: PATH },
};

test("shares the socket with the launcher and plugs the device in the same pass", () => {
  const pciAddress = { bus: 1, slot: 0, function: 0 };
  const xml = printNic({
    alias: "ua-a",
    mac: MAC,
    model: "virtio",
    mtu: 0,
    linkUp: true,
    queues: 1,
    pciAddress,
    socketPath: "/run/launcher/vhost-pod0a",
  });
  const attach = { kind: "attachDevice", iface: "a", xml };
  expect(live([fast(FOUND)], PREPARED)).toEqual([linked, attach]);
  expect(live([fast(READY)], PREPARED)).toEqual([attach]);
});

test("starts the guest with the NIC only if the socket exists", () => {
  expect(plan([fast(FOUND)])).toEqual([linked]);
  expect(listSteps(plan([fast(READY)]))).toEqual(["defineDomain", "startDomain"]);
  expect(JSON.stringify(plan([fast(READY)]))).toContain("vhost-pod0a");
  const missing = { socketProblem: { reason: "BackendMissing", message: "none" } } as const;
  expect(listSteps(plan([fast(missing)]))).toEqual(["defineDomain", "startDomain"]);
  expect(JSON.stringify(plan([fast(missing)]))).not.toContain("vhost-pod0a");
});

describe("a vhost-user NIC waits", () => {
  const message = "what was found";
  const problem = (reason: "BackendMissing" | "BackendRefused"): Partial<LinkFacts> => ({
    socketProblem: { reason, message },
  });
  const unshared = { ...aDomain(), hasNoNicVectors: true as const, sharesMemory: false };

  test.each([
    { reason: "BackendMissing", links: problem("BackendMissing"), change: PREPARED },
    { reason: "BackendRefused", links: problem("BackendRefused"), change: PREPARED },
    { reason: "PodInterfaceMissing", links: {}, change: PREPARED },
    { reason: "MemoryNotShared", links: FOUND, change: { domain: running(unshared) } },
    { reason: "MemoryNotShared", links: READY, change: { domain: running(unshared) } },
    { reason: "InterruptVectors", links: FOUND, change: {} },
    { reason: "InterruptVectors", links: READY, change: {} },
  ])("for $reason, with links $links", ({ reason, links, change }) => {
    const iface = fast(links);
    const [wait, ...rest] = live([iface], change);
    expect([wait, rest]).toMatchObject([{ kind: "wait", iface: "a", reason }, []]);
    if (wait?.kind !== "wait") throw new Error("it does not wait");
    const message = blockedReasonOfWait(wait, {
      ...factsOf([iface], { domain: running() }),
      ...change,
    });
    expect(message.reason).toBe(reason);
    expect(message.message).not.toBe("");
  });

  test("for nothing if the guest is not emulated", () => {
    const steps = live([fast(FOUND)], { useEmulation: false });
    expect(listSteps(steps)).toEqual(["linkSocket a", "attachDevice a"]);
  });
});

describe("a device", () => {
  test("is not changed if it works, whatever its link state", () => {
    expect(live([fast(WORKS, { device: DEVICE })], PREPARED)).toEqual([]);
    const down = { iface: { binding: { name: "fast" }, state: "down" as const } };
    expect(live([fast(WORKS, { device: DEVICE, ...down })], PREPARED)).toEqual([]);
  });

  test("stays while the dataplane is down, with a reason", () => {
    const missing = { socketProblem: { reason: "BackendMissing", message: "none" } } as const;
    const steps = live([fast(missing, { device: DEVICE })], PREPARED);
    expect(steps).toEqual([{ kind: "wait", iface: "a", reason: "BackendMissing" }]);
  });

  test("is unplugged and plugged again if its socket was recreated", () => {
    const again = fast(FOUND, { device: DEVICE });
    expect(live([again], PREPARED)).toEqual([linked]);
    const shared = fast(READY, { device: DEVICE });
    expect(listSteps(live([shared], PREPARED))).toEqual(["detachDevice a"]);
    const requested = { a: { count: 1, agoMs: 1, isRefused: false } };
    const [wait] = live([shared], { ...PREPARED, unplugRequests: requested });
    expect(wait).toMatchObject({ kind: "wait", reason: "BackendReplaced" });
    if (wait?.kind !== "wait") throw new Error("it does not wait");
    expect(
      blockedReasonOfWait(wait, factsOf([shared], { unplugRequests: requested })),
    ).toMatchObject({
      reason: "BackendReplaced",
      attempts: 1,
    });
  });

  test("leaves no link or socket after removal", () => {
    const iface = { binding: { name: "fast" }, state: "absent" as const };
    expect(listSteps(live([fast(WORKS, { device: DEVICE, iface })], PREPARED))).toEqual([
      "detachDevice a",
    ]);
    expect(live([fast(READY, { iface })], PREPARED)).toEqual([]);
  });
});

test("repeats unplug requests with growing delays of up to a minute", () => {
  expect([1, 2, 3, 4, 5, 6, 1000].map(computeUnplugRetryMs)).toEqual([
    10_000, 10_000, 20_000, 40_000, 60_000, 60_000, 60_000,
  ]);
});
