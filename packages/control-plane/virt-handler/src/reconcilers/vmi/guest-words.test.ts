// SPDX-License-Identifier: Apache-2.0
// The guest's reports about its links reach the status soon, stay there when the agent is silent, and cost few queries
// and writes.
import type { IfaceStatus } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import type { GuestInterface } from "@patchbay/core/interfaces";
import { describe, expect, test } from "vitest";
import type { Bench } from "../../testing/bench.ts";
import { running, without } from "../../testing/scene.ts";

/** Of the scene's NICs. */
const MACS = { one: "02:00:00:00:00:01", two: "02:00:00:00:00:02" };
const DOMAIN = "default_vm1";
const LO = nic("lo", "00:00:00:00:00:00", "127.0.0.1", "::1");

function nic(name: string, mac: string, ...addresses: readonly string[]): GuestInterface {
  return { name, mac, addresses };
}

const FIRST = [LO, nic("enp2s0", MACS.one, "10.0.0.9", "fe80::1"), nic("enp3s0", MACS.two)];

async function interfacesOf(bench: Bench): Promise<readonly IfaceStatus[]> {
  return (await bench.vmi()).status?.interfaces ?? [];
}

async function guestNames(bench: Bench): Promise<readonly (string | undefined)[]> {
  return (await interfacesOf(bench)).map(({ interfaceName }) => interfaceName);
}

async function addresses(bench: Bench): Promise<readonly string[] | undefined> {
  return (await interfacesOf(bench))[0]?.ipAddresses;
}

/** Lets time pass for the same process. */
async function later(bench: Bench, ms: number): Promise<void> {
  bench.nowMs += ms;
  expect(await bench.resume()).toEqual([]);
}

function say(bench: Bench, links: readonly GuestInterface[] | undefined): void {
  bench.daemon.setAgent(DOMAIN, links);
}

/** A running VM whose guest agent knows its NICs. */
async function withAgent(links: readonly GuestInterface[] = FIRST): Promise<Bench> {
  const bench = await running();
  say(bench, links);
  await bench.run();
  await later(bench, 1_000);
  return bench;
}

function questions(bench: Bench): number {
  return bench.daemon.calls.filter((call) => call.startsWith("readGuestInterfaces")).length;
}

function writes(bench: Bench): number {
  return bench.store.calls.filter((call) => call.startsWith("patch")).length;
}

/** Wakes the loop at intervals for some time, like libvirt events, and calls a function before each. */
async function wakes(
  bench: Bench,
  { everyMs, forMs }: { readonly everyMs: number; readonly forMs: number },
  before: (turn: number) => void,
): Promise<{ readonly writes: number; readonly questions: number }> {
  const begun = { writes: writes(bench), questions: questions(bench) };
  for (let turn = 0; turn * everyMs < forMs; turn += 1) {
    bench.nowMs += everyMs;
    before(turn);
    await bench.wake();
  }
  return { writes: writes(bench) - begun.writes, questions: questions(bench) - begun.questions };
}

describe("the guest's report on its NICs", () => {
  test("is unknown without an agent, which is not queried", async () => {
    const bench = await running();
    await later(bench, 100_000);
    expect(await guestNames(bench)).toEqual([undefined, undefined]);
    expect(questions(bench)).toBe(0);
  });

  test("is in the status soon after an agent connects, with its source", async () => {
    const bench = await withAgent();
    expect(await guestNames(bench)).toEqual(["enp2s0", "enp3s0"]);
    expect((await interfacesOf(bench))[0]).toMatchObject({
      infoSource: "domain, guest-agent, multus-status",
      ipAddress: "10.0.0.9",
      ipAddresses: ["10.0.0.9", "fe80::1"],
      addressInfo: { source: "guest-agent" },
    });
  });

  test("is queried a few times after a change, and then rarely", async () => {
    const bench = await withAgent();
    for (const ms of [3_000, 15_000, 60_000]) await later(bench, ms);
    expect(questions(bench)).toBe(4);
    expect(bench.next).toEqual({ kind: "after", ms: 120_000 });
    await later(bench, 60_000);
    expect(questions(bench)).toBe(4);
    await later(bench, 60_000);
    expect(questions(bench)).toBe(5);
    await bench.edit((vmi) => without(vmi, "two"));
    await later(bench, 0);
    await later(bench, 600);
    expect(questions(bench)).toBe(6);
  });

  test("is updated when the guest changes", async () => {
    const bench = await withAgent();
    say(bench, [nic("wan0", MACS.one.toUpperCase(), "10.0.0.9", "10.0.0.10", "10.0.0.11")]);
    await later(bench, 10_000);
    expect(await guestNames(bench)).toEqual(["wan0", "enp3s0"]);
    expect(await addresses(bench)).toEqual(["10.0.0.9", "10.0.0.10", "10.0.0.11", "fe80::1"]);
  });

  test("stays when the agent ends, and over a restart of the process", async () => {
    const bench = await withAgent();
    say(bench, undefined);
    await later(bench, 100_000);
    await bench.run();
    expect(await guestNames(bench)).toEqual(["enp2s0", "enp3s0"]);
    expect(await addresses(bench)).toEqual(["10.0.0.9", "fe80::1"]);
  });

  test("is marked as outdated once the agent has been silent for a minute", async () => {
    const bench = await withAgent();
    say(bench, undefined);
    await later(bench, 1_000);
    const silentSince = new Date(bench.nowMs).toISOString();
    const before = writes(bench);
    await later(bench, 59_000);
    expect(writes(bench)).toBe(before);
    await later(bench, 1_000);
    const [first] = await interfacesOf(bench);
    expect(Date.parse(first?.addressInfo?.silentSince ?? "")).toBe(Date.parse(silentSince));
    say(bench, FIRST);
    await later(bench, 1_000);
    expect((await interfacesOf(bench))[0]?.addressInfo?.silentSince).toBeUndefined();
  });

  test("survives a connection that ends during the query: the pass fails", async () => {
    const bench = await withAgent();
    const lost = new AppError("LIBVIRT_CONNECTION_LOST", { message: "gone" });
    bench.daemon.failNext("readGuestInterfaces", lost);
    bench.nowMs += 3_000;
    expect(await bench.resume()).toEqual([lost]);
    expect(await guestNames(bench)).toEqual(["enp2s0", "enp3s0"]);
  });

  test("causes only a log line when the agent rejects the query", async () => {
    const bench = await withAgent();
    bench.daemon.failNext("readGuestInterfaces", new AppError("LIBVIRT_REFUSED", { message: "?" }));
    await later(bench, 3_000);
    const line = bench.log.lines.find(({ message }) => message.includes("did not answer"));
    expect(line?.fields).toMatchObject({ vmi: "default/vm1" });
    expect(line?.level).toBe("debug");
  });

  test("delays nothing when the agent does not answer", async () => {
    const bench = await withAgent();
    const message = "guest agent is not responding";
    bench.daemon.failNext(
      "readGuestInterfaces",
      new AppError("LIBVIRT_AGENT_UNAVAILABLE", { message }),
    );
    await bench.edit((vmi) => without(vmi, "one"));
    await later(bench, 0);
    await later(bench, 1_000);
    const phases = (await interfacesOf(bench)).map(({ hotplug }) => hotplug?.phase);
    expect(phases).toEqual(["PodDetaching", "Ready"]);
    expect(await guestNames(bench)).toEqual([undefined, "enp3s0"]);
  });
});

describe("links that the guest created", () => {
  const docker = nic("docker0", "06:00:00:00:00:01", "172.17.0.1");

  test("are reported without a name and cause no plug or unplug events", async () => {
    const bench = await withAgent([...FIRST, docker]);
    expect((await interfacesOf(bench))[2]).toEqual({
      infoSource: "guest-agent",
      ipAddress: "172.17.0.1",
      ipAddresses: ["172.17.0.1"],
      mac: "06:00:00:00:00:01",
      interfaceName: "docker0",
    });
    const events = bench.events.length;
    say(bench, FIRST);
    for (const ms of [3_000, 15_000, 60_000]) await later(bench, ms);
    expect(await interfacesOf(bench)).toHaveLength(2);
    expect(bench.events).toHaveLength(events);
  });

  test("stay over a restart of the process, and while libvirt is away", async () => {
    const bench = await withAgent([...FIRST, docker]);
    const before = await interfacesOf(bench);
    await bench.run();
    expect(await interfacesOf(bench)).toEqual(before);
    const late = new AppError("LIBVIRT_TIMED_OUT", { call: "virDomainGetXMLDesc", timeoutMs: 1 });
    for (let turn = 0; turn < 3; turn += 1) {
      bench.daemon.failNext("readDomainXml", late);
      bench.nowMs += 200_000;
      await bench.wake();
    }
    expect((await bench.vmi()).status?.blockedReason?.reason).toBe("LibvirtTimedOut");
    expect(await interfacesOf(bench)).toEqual(before);
  });

  test("are limited to ten in the status with a count, of 2,000", async () => {
    const many = Array.from({ length: 250 }, (_, index) =>
      nic(`veth${String(index)}`, `06:00:00:00:01:${index.toString(16).padStart(2, "0")}`),
    );
    const bench = await withAgent([...FIRST, ...many]);
    const { status } = await bench.vmi();
    expect(status?.interfaces).toHaveLength(12);
    expect(status?.unlistedGuestInterfaces).toBe(240);
    expect(JSON.stringify(status).length).toBeLessThan(8_000);
    say(bench, [...FIRST, ...many.slice(0, 5)]);
    for (const ms of [3_000, 15_000, 60_000]) await later(bench, ms);
    expect((await bench.vmi()).status?.unlistedGuestInterfaces).toBeUndefined();
  });
});

describe("the agent's presence and the guest's system", () => {
  const SYSTEM = { id: "debian", kernelRelease: "6.1.0-9-amd64", machine: "x86_64" };

  async function conditions(bench: Bench): Promise<readonly string[]> {
    return ((await bench.vmi()).status?.conditions ?? []).map(({ type }) => type);
  }

  function systemQuestions(bench: Bench): number {
    return bench.daemon.calls.filter((call) => call.startsWith("readGuestSystem")).length;
  }

  test("are reported, and the system is queried once", async () => {
    const bench = await running();
    bench.daemon.setGuestSystem(DOMAIN, { ...SYSTEM, name: "\u001b[2J" });
    say(bench, FIRST);
    await bench.run();
    await later(bench, 1_000);
    expect(await conditions(bench)).toEqual(["AgentConnected"]);
    expect((await bench.vmi()).status?.guestOSInfo).toEqual(SYSTEM);
    for (const ms of [3_000, 15_000, 60_000, 120_000]) await later(bench, ms);
    expect(systemQuestions(bench)).toBe(1);
  });

  test("are queried again when the agent reconnects, perhaps from another system", async () => {
    const bench = await withAgent();
    say(bench, undefined);
    await later(bench, 0);
    await later(bench, 30_000);
    expect(await conditions(bench)).toEqual(["AgentConnected"]);
    await later(bench, 31_000);
    expect(await conditions(bench)).toEqual([]);
    bench.daemon.setGuestSystem(DOMAIN, SYSTEM);
    say(bench, FIRST);
    await bench.run();
    await later(bench, 1_000);
    expect(await conditions(bench)).toEqual(["AgentConnected"]);
    expect((await bench.vmi()).status?.guestOSInfo).toEqual(SYSTEM);
  });

  test("are withdrawn when the agent hangs with its channel open, and restored when it answers", async () => {
    const bench = await withAgent();
    for (const ms of [3_000, 15_000, 60_000]) await later(bench, ms);
    bench.daemon.failAlways(
      "readGuestInterfaces",
      new AppError("LIBVIRT_AGENT_UNAVAILABLE", { message: "guest agent is not responding" }),
    );
    await later(bench, 120_000);
    const since = bench.nowMs;
    await later(bench, 15_000);
    expect(bench.next).toEqual({ kind: "after", ms: 45_000 });
    expect(await conditions(bench)).toEqual(["AgentConnected"]);
    await later(bench, 45_000);
    expect(await conditions(bench)).toEqual([]);
    const [first] = await interfacesOf(bench);
    expect(Date.parse(first?.addressInfo?.silentSince ?? "")).toBe(since);
    expect(await addresses(bench)).toEqual(["10.0.0.9", "fe80::1"]);
    bench.daemon.failAlways("readGuestInterfaces", undefined);
    await later(bench, 480_000);
    await later(bench, 0);
    expect(await conditions(bench)).toEqual(["AgentConnected"]);
    expect((await interfacesOf(bench))[0]?.addressInfo?.silentSince).toBeUndefined();
  });

  test("are not queried again from an agent that does not support the query", async () => {
    const bench = await running();
    bench.daemon.failAlways(
      "readGuestSystem",
      new AppError("LIBVIRT_UNSUPPORTED", { message: "" }),
    );
    say(bench, FIRST);
    await bench.run();
    for (const ms of [1_000, 3_000, 15_000]) await later(bench, ms);
    expect(systemQuestions(bench)).toBe(1);
    expect((await bench.vmi()).status?.guestOSInfo).toBeUndefined();
    expect(await guestNames(bench)).toEqual(["enp2s0", "enp3s0"]);
  });
});

describe("the status is not written", () => {
  test("at rest, while libvirt sends events and the agent varies its wording", async () => {
    const bench = await withAgent([...FIRST, nic("docker0", "06:00:00:00:00:01", "172.17.0.1")]);
    await later(bench, 100_000);
    const answers: readonly (readonly GuestInterface[] | undefined)[] = [
      [...FIRST, nic("docker0", "06:00:00:00:00:01", "172.17.0.1")],
      [nic("docker0", "06-00-00-00-00-01", "172.17.0.1"), ...FIRST.toReversed()],
      [LO, nic("enp2s0", MACS.one.toUpperCase(), "FE80:0::1", "10.0.0.9"), LO],
      [LO],
      [],
      [nic("enp2s0", MACS.one)],
      undefined,
      [nic("enp2s0", MACS.one, "10.0.0.9", "10.0.0.9/24", "nonsense", "127.0.0.1")],
    ];
    const cost = await wakes(bench, { everyMs: 5_000, forMs: 1_200_000 }, (turn) => {
      say(bench, answers[turn % answers.length]);
    });
    expect(cost.writes).toBe(0);
    expect(cost.questions).toBeGreaterThan(10);
  });

  test("more often than the agent is queried, for a guest whose answers always change", async () => {
    const bench = await withAgent();
    const cost = await wakes(bench, { everyMs: 3_000, forMs: 1_500_000 }, (turn) => {
      say(bench, [
        nic(`eth${String(turn)}`, MACS.one, `10.0.${String(turn >> 8)}.${String(turn & 255)}`),
      ]);
    });
    expect(cost.writes).toBeGreaterThan(10);
    expect(cost.writes).toBeLessThanOrEqual(cost.questions);
    expect(cost.questions).toBeLessThanOrEqual(4 + 1_500 / 120);
  });

  test("more than once in ten seconds for a libvirt whose answers always change", async () => {
    const bench = await running();
    let turns = 0;
    bench.rewriteXml = (xml) =>
      xml.replaceAll('state="up"', "").replace(/<mtu size="\d+"\/>/, () => {
        turns += 1;
        return `<mtu size="${String(1000 + (turns % 500))}"/>`;
      });
    const cost = await wakes(bench, { everyMs: 2_000, forMs: 600_000 }, () => undefined);
    expect(cost.writes).toBeGreaterThan(20);
    expect(cost.writes).toBeLessThanOrEqual(20 + 600 / 10);
    bench.rewriteXml = (xml) => xml;
    const before = writes(bench);
    await later(bench, 20_000);
    expect(writes(bench)).toBe(before + 1);
  });
});
