// SPDX-License-Identifier: Apache-2.0
// What the guest calls its NICs is in the status as soon as it says so, and stays there when it falls silent.
import { AppError } from "@patchbay/core";
import { describe, expect, test } from "vitest";
import type { Bench } from "../../testing/bench.ts";
import { running, without } from "../../testing/scene.ts";

/** Of the scene's NICs. */
const MACS = { one: "02:00:00:00:00:01", two: "02:00:00:00:00:02" };

async function guestNames(bench: Bench): Promise<readonly (string | undefined)[]> {
  return ((await bench.vmi()).status?.interfaces ?? []).map(({ interfaceName }) => interfaceName);
}

/** Lets time pass for the same process. */
async function later(bench: Bench, ms: number): Promise<void> {
  bench.nowMs += ms;
  expect(await bench.goOn()).toEqual([]);
}

/** A running VM whose guest's agent knows its NICs. */
async function withAgent(): Promise<Bench> {
  const bench = await running();
  bench.daemon.setAgent("default_vm1", [
    { name: "lo", mac: "00:00:00:00:00:00" },
    { name: "enp2s0", mac: MACS.one },
    { name: "enp3s0", mac: MACS.two },
  ]);
  await bench.run();
  await later(bench, 1_000);
  return bench;
}

function questions(bench: Bench): number {
  return bench.daemon.calls.filter((call) => call.startsWith("readGuestInterfaces")).length;
}

describe("what the guest calls its NICs", () => {
  test("is unknown without an agent, which is not asked", async () => {
    const bench = await running();
    await later(bench, 100_000);
    expect(await guestNames(bench)).toEqual([undefined, undefined]);
    expect(questions(bench)).toBe(0);
  });

  test("is told soon after an agent is there, with its source", async () => {
    const bench = await withAgent();
    expect(await guestNames(bench)).toEqual(["enp2s0", "enp3s0"]);
    const infoSource = "domain, guest-agent, multus-status";
    expect((await bench.vmi()).status?.interfaces?.[0]).toMatchObject({ infoSource });
  });

  test("is asked a few times after a change, and no more at rest", async () => {
    const bench = await withAgent();
    for (const ms of [3_000, 15_000, 60_000, 600_000, 6_000_000]) await later(bench, ms);
    expect(questions(bench)).toBe(4);
    await bench.edit((vmi) => without(vmi, "two"));
    await later(bench, 0);
    await later(bench, 600_000);
    expect(questions(bench)).toBeGreaterThan(4);
  });

  test("is told anew when the guest changes its mind", async () => {
    const bench = await withAgent();
    bench.daemon.setAgent("default_vm1", [{ name: "wan0", mac: MACS.one.toUpperCase() }]);
    await later(bench, 10_000);
    expect(await guestNames(bench)).toEqual(["wan0", "enp3s0"]);
  });

  test("stays when the agent ends, and over a restart of the process", async () => {
    const bench = await withAgent();
    bench.daemon.setAgent("default_vm1", undefined);
    await later(bench, 100_000);
    await bench.run();
    expect(await guestNames(bench)).toEqual(["enp2s0", "enp3s0"]);
  });

  test("is asked on a connection that ends: the pass fails, and nothing is forgotten", async () => {
    const bench = await withAgent();
    const lost = new AppError("LIBVIRT_CONNECTION_LOST", { message: "gone" });
    bench.daemon.failNext("readGuestInterfaces", lost);
    bench.nowMs += 3_000;
    expect(await bench.goOn()).toEqual([lost]);
    expect(await guestNames(bench)).toEqual(["enp2s0", "enp3s0"]);
  });

  test("that an agent does not tell is said in the log only", async () => {
    const bench = await withAgent();
    bench.daemon.failNext("readGuestInterfaces", new AppError("LIBVIRT_REFUSED", { message: "?" }));
    await later(bench, 3_000);
    const line = bench.log.lines.find(({ message }) => message.includes("gave no names"));
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
    const phases = (await bench.vmi()).status?.interfaces?.map(({ hotplug }) => hotplug?.phase);
    expect(phases).toEqual(["PodDetaching", "Ready"]);
    expect(await guestNames(bench)).toEqual([undefined, "enp3s0"]);
  });
});
