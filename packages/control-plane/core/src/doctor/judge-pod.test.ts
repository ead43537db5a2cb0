// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { asked, FROM_POD, pathFacts, trace, type PathChange } from "../testing/path-facts.ts";
import { diagnose } from "./diagnose.ts";
import type { FrameTrace } from "./facts.ts";

const [ALL, HALF] = [20, 9];

const LOST_IN_POD: FrameTrace = trace("through", {
  probeSeenAt: ["nodePeer", "podNic"],
  replySeenAt: [],
});
const NO_ANSWER_FORWARDED: FrameTrace = trace("through", {
  probeSeenAt: ["nodePeer", "podNic", "podBridge", "tap"],
  replySeenAt: ["tap", "podBridge"],
});
const DROPS_ALL = { command: "nft list chain ip x c", dropsAll: true };
const DROPS_SOME = { ...DROPS_ALL, dropsAll: false };

test.each<{
  name: string;
  observed: PathChange["observed"];
  traces?: readonly FrameTrace[];
  want: object;
}>([
  {
    name: "a request, by a rule against all packets",
    observed: { through: LOST_IN_POD, packetFilters: [DROPS_SOME, DROPS_ALL] },
    want: {
      state: "dead",
      reason: "FramesLost",
      fix: expect.stringContaining(DROPS_ALL.command) as string,
    },
  },
  {
    name: "a request, perhaps by a rule against new connections",
    observed: { through: LOST_IN_POD, packetFilters: [DROPS_SOME] },
    want: { state: "unknown" },
  },
  { name: "a request, by no rule", observed: { through: LOST_IN_POD }, want: { state: "unknown" } },
  {
    name: "an answer",
    observed: { through: NO_ANSWER_FORWARDED },
    want: { state: "dead", reason: "FramesLost" },
  },
  {
    name: "nothing, because the guest refuses connections",
    observed: { through: { ...NO_ANSWER_FORWARDED, replySeenAt: [] } },
    want: { state: "ok" },
  },
  {
    name: "a request that a proxy in the pod answers",
    observed: { through: { ...LOST_IN_POD, replySeenAt: ["podNic", "nodePeer"] } },
    want: { state: "ok" },
  },
  {
    name: "nothing, because no request reached the pod",
    observed: {
      through: { ...LOST_IN_POD, probeSeenAt: ["nodePeer"] },
      packetFilters: [DROPS_ALL],
    },
    want: { state: "ok" },
  },
  {
    name: "an answer on a lossy path",
    observed: {
      through: NO_ANSWER_FORWARDED,
      losses: [
        {
          probe: "echo",
          sent: ALL,
          probes: { podNic: ALL, nodePeer: ALL, uplink: ALL },
          replies: { uplink: HALF, nodePeer: HALF, podNic: HALF },
        },
      ],
    },
    want: { state: "ok" },
  },
  {
    name: "a request with a wrong neighbor entry of the pod",
    observed: {
      through: LOST_IN_POD,
      packetFilters: [DROPS_ALL],
      neighbors: [{ at: "pod", link: "k6t-1", address: "10.0.2.2", mac: "02:00:00:00:5e:42" }],
    },
    want: { state: "ok" },
  },
  {
    name: "a request to a guest that does not answer",
    observed: { through: LOST_IN_POD, packetFilters: [DROPS_ALL] },
    traces: [asked("inward", "tap")],
    want: { state: "ok" },
  },
])("the pod does not forward $name", ({ observed, traces = [], want }) => {
  const others = FROM_POD.filter(({ probe }) => !traces.some((one) => one.probe === probe));
  const { hops } = diagnose(
    pathFacts({
      binding: "masquerade",
      traces: [...others, ...traces],
      observed: { isBridged: false, ...observed },
    }),
  );
  expect(hops.find(({ hop }) => hop === "translation")).toMatchObject(want);
});
