// SPDX-License-Identifier: Apache-2.0
import type { HopName, LossCount } from "@patchbay/core/doctor";
import type { Netlink, ReceivedFrames } from "@patchbay/core/interfaces";
import { createFakeClock } from "@patchbay/os/testing";
import { describe, expect, test } from "vitest";
import { createFakeNetlink } from "../testing/fakes/netlink.ts";
import { countLosses, sendProbes, type CapturePoint } from "./send-probes.ts";
import type { Probe } from "./probes.ts";

const NETNS = { fd: 1, inode: "1" };
const POINTS: readonly CapturePoint[] = (["tap", "podBridge"] as const).map((hop) => {
  return { hop, netns: NETNS, link: hop };
});

/** A probe whose first byte is its number. The second byte is 1 in its answer. */
function buildProbe(probe: Probe["probe"], number: number, attempts = 1): Probe {
  const build = (second: number): Probe["frame"]["probeTests"] => [
    { offset: 0, size: 1, value: number },
    { offset: 1, size: 1, value: second },
  ];
  const frame = {
    frame: Uint8Array.of(number, 0),
    probeTests: build(0),
    answerTests: build(1),
  };
  return { probe, from: "podBridge", attempts, frame };
}

/** Answers each exchange with the links at which the answer to the frame with this number passes. */
function createSources(
  listHops: (round: number, number: number) => readonly HopName[],
): Parameters<typeof sendProbes>[0] & { readonly rounds: () => number } {
  let rounds = 0;
  const exchangeFrames = ({
    sends,
  }: Parameters<Netlink["exchangeFrames"]>[0]): Promise<ReceivedFrames> => {
    rounds += 1;
    const frames = sends.flatMap(({ frame }) =>
      listHops(rounds, frame[0] ?? 0).map((hop) => {
        const port = POINTS.findIndex((point) => point.hop === hop);
        return { port, isOutgoing: false, frame: Uint8Array.of(frame[0] ?? 0, 1) };
      }),
    );
    return Promise.resolve({
      frames,
      unheard: POINTS.map(() => 0),
      unsent: sends.map(() => 0),
    });
  };
  const netlink = { ...createFakeNetlink(() => undefined), exchangeFrames };
  return { netlink, clock: createFakeClock(), rounds: () => rounds };
}

describe("a probe", () => {
  test.each<{ name: string; hops: (round: number) => readonly HopName[]; rounds: number }>([
    { name: "with an answer at the sending link", hops: () => ["tap", "podBridge"], rounds: 1 },
    {
      name: "whose first answer is lost on the way",
      hops: (round) => (round === 1 ? ["tap"] : ["tap", "podBridge"]),
      rounds: 2,
    },
    { name: "whose answers are all lost on the way", hops: () => ["tap"], rounds: 4 },
    { name: "without an answer", hops: () => [], rounds: 4 },
  ])("$name is sent $rounds times", async ({ hops, rounds }) => {
    const sources = createSources(hops);
    const probes = [buildProbe("inward", 7, 4)];
    const traces = await sendProbes(sources, POINTS, { probes, untilMs: Infinity });
    expect(sources.rounds()).toBe(rounds);
    expect(traces.map(({ replySeenAt }) => replySeenAt)).toEqual([[...new Set(hops(rounds))]]);
  });
});

const BOTH: readonly HopName[] = ["tap", "podBridge"];

describe("a series of pings", () => {
  test.each<{
    name: string;
    hops: (round: number, number: number) => readonly HopName[];
    want: Pick<LossCount, "sent" | "replies">;
  }>([
    {
      name: "without losses",
      hops: () => BOTH,
      want: { sent: 4, replies: { tap: 4, podBridge: 4 } },
    },
    {
      name: "with a loss is repeated",
      hops: (_round, number) => (number === 1 ? ["tap"] : BOTH),
      want: { sent: 8, replies: { tap: 8, podBridge: 6 } },
    },
    {
      name: "without any answer does not count beside one with answers",
      hops: (round) => (round === 1 ? [] : BOTH),
      want: { sent: 4, replies: { tap: 4, podBridge: 4 } },
    },
    {
      name: "with a loss counts beside one without any answer",
      hops: (round, number) => (round === 2 ? [] : number === 1 ? ["tap"] : BOTH),
      want: { sent: 4, replies: { tap: 4, podBridge: 3 } },
    },
    { name: "without any answer, twice", hops: () => [], want: { sent: 4, replies: {} } },
  ])("$name", async ({ hops, want }) => {
    const probes = [1, 2, 3, 4].map((number) => buildProbe("ping", number));
    const series = { probes: () => probes, untilMs: Infinity };
    const losses = await countLosses(createSources(hops), POINTS, series);
    expect(losses).toEqual([{ probe: "ping", probes: {}, ...want }]);
  });
});
