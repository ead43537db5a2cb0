// SPDX-License-Identifier: Apache-2.0
import type { IfaceStatus } from "@patchbay/api";
import type { GuestInterface } from "@patchbay/core/interfaces";
import { createFakeClock, type FakeClock } from "@patchbay/os/testing";
import { aVmi } from "@patchbay/support";
import { beforeEach, describe, expect, test } from "vitest";
import { createGuestAgents, type GuestAgents } from "./guest-agents.ts";

const MAC = "02:00:00:00:00:01";
const VMI = vmiOf("vmi-uid");
const UID = "vmi-uid";

let clock: FakeClock;
let guests: GuestAgents;

function vmiOf(uid: string, interfaces: readonly IfaceStatus[] = []): ReturnType<typeof aVmi> {
  const vmi = aVmi({ status: { interfaces: [...interfaces] } });
  return { ...vmi, metadata: { ...vmi.metadata, uid } };
}

function eth0(...addresses: readonly string[]): GuestInterface {
  return { name: "eth0", mac: MAC, addresses };
}

function tell(links: readonly GuestInterface[] | undefined, vmi = VMI): boolean {
  return guests.recordAnswer(vmi, { links, macs: [MAC] });
}

function timeOut(vmi = VMI): boolean {
  return guests.recordAnswer(vmi, { links: undefined, isTimeout: true, macs: [MAC] });
}

function addressesOf(vmi = VMI): readonly string[] | undefined {
  return guests.getView(vmi).nics.get(MAC)?.ipv4.value;
}

beforeEach(() => {
  clock = createFakeClock();
  guests = createGuestAgents(clock);
});

describe("a guest's report", () => {
  test.each([
    { name: "an identical response", told: [eth0("10.0.0.1")], isNew: false },
    { name: "a missing response", told: undefined, isNew: false },
    { name: "nothing", told: [], isNew: false },
    { name: "an answer without the addresses", told: [eth0()], isNew: false },
    {
      name: "a changed interface name",
      told: [{ ...eth0("10.0.0.1"), name: "wan0" }],
      isNew: true,
    },
    { name: "a changed address", told: [eth0("10.0.0.2")], isNew: true },
    { name: "an additional address", told: [eth0("10.0.0.1", "10.0.0.2")], isNew: true },
    {
      name: "an additional interface of the guest",
      told: [eth0("10.0.0.1"), { name: "docker0", mac: "06:00:00:00:00:01", addresses: [] }],
      isNew: true,
    },
  ])("is new after $name: $isNew", ({ told, isNew }) => {
    expect(tell([eth0("10.0.0.1")])).toBe(true);
    expect(tell(told)).toBe(isNew);
  });

  test("is the one in the status until the guest reports to this process", () => {
    const reported = vmiOf(UID, [
      {
        name: "one",
        mac: MAC,
        infoSource: "domain, guest-agent",
        ipAddresses: ["10.0.0.7"],
        addressInfo: { source: "guest-agent", since: "2026-01-01T00:00:00Z" },
      },
    ]);
    expect(addressesOf(reported)).toEqual(["10.0.0.7"]);
    expect(tell([eth0()], reported)).toBe(true); // its name
    expect(addressesOf(reported)).toEqual(["10.0.0.7"]);
  });

  test("is forgotten with its VMI", () => {
    const other = vmiOf("other");
    tell([eth0("10.0.0.1")]);
    tell([eth0("10.0.0.1")], other);
    guests.forget(UID);
    expect(addressesOf()).toBeUndefined();
    expect(addressesOf(other)).toEqual(["10.0.0.1"]);
  });
});

describe("the next query", () => {
  test("is never due without an agent", () => {
    expect(guests.queryDueInMs(UID, "")).toBeUndefined();
  });

  test("is due after a while, later with each query, and soon again after a change", async () => {
    const first = guests.queryDueInMs(UID, "a");
    expect(first).toBe(500);
    await clock.advance(500);
    expect(guests.queryDueInMs(UID, "a")).toBe(0);
    tell(undefined);
    expect(guests.queryDueInMs(UID, "a")).toBe(2_500);
    expect(guests.queryDueInMs(UID, "a b")).toBe(500);
  });

  test("is rare at rest, and rarer without an answer", async () => {
    guests.queryDueInMs(UID, "a");
    for (const ms of [500, 2_500, 12_000, 45_000]) {
      await clock.advance(ms);
      expect(guests.queryDueInMs(UID, "a")).toBe(0);
      tell([eth0()]);
    }
    expect(guests.queryDueInMs(UID, "a")).toBe(120_000);
    await clock.advance(120_000);
    tell(undefined);
    expect(guests.queryDueInMs(UID, "a")).toBe(15_000);
    await clock.advance(15_000);
    tell(undefined);
    expect(guests.queryDueInMs(UID, "a")).toBe(480_000);
    await clock.advance(480_000);
    tell([eth0()]);
    expect(guests.queryDueInMs(UID, "a")).toBe(120_000);
  });

  test("is due as at first after the VMI was forgotten", async () => {
    guests.queryDueInMs(UID, "a");
    await clock.advance(500);
    tell([eth0()]);
    guests.forget(UID);
    expect(guests.queryDueInMs(UID, "a")).toBe(500);
  });

  test("is limited for an agent that reconnects all the time", async () => {
    let questions = 0;
    for (let second = 0; second < 3_600; second += 1) {
      const inMs = guests.queryDueInMs(UID, second % 2 === 0 ? "a" : "b");
      await clock.advance(500);
      if (inMs !== undefined && guests.queryDueInMs(UID, second % 2 === 0 ? "a" : "b") === 0) {
        tell([eth0()]);
        questions += 1;
      }
      await clock.advance(500);
    }
    expect(questions).toBeGreaterThan(100);
    expect(questions).toBeLessThanOrEqual(12 + 3_600 / 30);
  });
});

describe("a disconnected agent", () => {
  test("is reported after a minute with its start, until it reconnects", async () => {
    tell([eth0("10.0.0.1")]);
    const since = new Date(clock.now()).toISOString();
    guests.recordConnected(VMI, false);
    expect(guests.silenceReportDueInMs(UID)).toBe(60_000);
    await clock.advance(59_000);
    guests.recordConnected(VMI, false);
    expect(guests.silentSince(VMI)).toBeUndefined();
    await clock.advance(1_000);
    expect(Date.parse(guests.silentSince(VMI) ?? "")).toBe(Date.parse(since));
    expect(guests.silenceReportDueInMs(UID)).toBeUndefined();
    guests.recordConnected(VMI, true);
    expect(guests.silentSince(VMI)).toBeUndefined();
  });

  test("is not reported if the guest has never reported", async () => {
    guests.recordConnected(VMI, false);
    await clock.advance(100_000);
    expect([guests.silentSince(VMI), guests.silenceReportDueInMs(UID)]).toEqual([
      undefined,
      undefined,
    ]);
  });

  test("is reported unchanged by the next process", async () => {
    await clock.advance(200_000);
    const silentSince = new Date(clock.now() - 100_000).toISOString();
    const reported = vmiOf(UID, [
      {
        name: "one",
        mac: MAC,
        infoSource: "domain, guest-agent",
        addressInfo: { source: "guest-agent", since: silentSince, silentSince },
      },
    ]);
    guests.recordConnected(reported, false);
    expect(Date.parse(guests.silentSince(reported) ?? "")).toBe(Date.parse(silentSince));
  });
});

describe("an agent that has the channel open and does not answer", () => {
  async function hang(vmi = VMI): Promise<void> {
    timeOut(vmi);
    await clock.advance(15_000);
    expect(timeOut(vmi)).toBe(true);
    guests.recordConnected(vmi, true);
  }

  test("counts as silent after two queries and a minute, since the first query", async () => {
    tell([eth0("10.0.0.1")]);
    const since = clock.now();
    await hang();
    expect(guests.silentSince(VMI)).toBeUndefined();
    expect(guests.silenceReportDueInMs(UID)).toBe(45_000);
    await clock.advance(45_000);
    expect(Date.parse(guests.silentSince(VMI) ?? "")).toBe(since);
    expect(addressesOf()).toEqual(["10.0.0.1"]);
  });

  test("is not silent after one query", async () => {
    tell([eth0("10.0.0.1")]);
    timeOut();
    guests.recordConnected(VMI, true);
    await clock.advance(100_000);
    expect([guests.silentSince(VMI), guests.silenceReportDueInMs(UID)]).toEqual([
      undefined,
      undefined,
    ]);
  });

  test("is not silent because it rejects a query", async () => {
    tell([eth0("10.0.0.1")]);
    for (let times = 0; times < 3; times += 1) tell(undefined);
    guests.recordConnected(VMI, true);
    await clock.advance(100_000);
    expect(guests.silentSince(VMI)).toBeUndefined();
  });

  test.each([
    { name: "it answers again", change: () => tell([eth0("10.0.0.1")]) },
    {
      name: "it reconnects",
      change: () => {
        guests.recordConnected(VMI, false);
      },
    },
  ])("is no longer silent when $name", async ({ change }) => {
    tell([eth0("10.0.0.1")]);
    await hang();
    await clock.advance(60_000);
    change();
    guests.recordConnected(VMI, true);
    expect(guests.silentSince(VMI)).toBeUndefined();
  });

  test("is silent for the next process too, until it answers", () => {
    const silentSince = new Date(clock.now()).toISOString();
    const reported = vmiOf(UID, [
      {
        name: "one",
        mac: MAC,
        infoSource: "domain, guest-agent",
        addressInfo: { source: "guest-agent", since: silentSince, silentSince },
      },
    ]);
    guests.recordConnected(reported, true);
    expect(Date.parse(guests.silentSince(reported) ?? "")).toBe(Date.parse(silentSince));
    expect(tell([eth0("10.0.0.1")], reported)).toBe(true);
    guests.recordConnected(reported, true);
    expect(guests.silentSince(reported)).toBeUndefined();
  });

  test("is silent although it never answered", async () => {
    const { status, ...rest } = VMI;
    const connected = { ...status, conditions: [{ type: "AgentConnected", status: "True" }] };
    await hang({ ...rest, status: connected } as typeof VMI);
    await clock.advance(45_000);
    guests.recordConnected(VMI, true);
    expect(guests.silentSince(VMI)).toBeDefined();
  });
});
