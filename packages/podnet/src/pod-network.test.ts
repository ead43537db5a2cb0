// SPDX-License-Identifier: Apache-2.0
import type { BridgeWiring } from "@patchbay/core";
import type { Command, CommandResult, PodNetwork } from "@patchbay/ports";
import { createFakeClock, createFakeProcessRunner } from "@patchbay/ports/testing";
import { describe, expect, test } from "vitest";
import { createPodNetwork } from "./pod-network.ts";
import { READ_SETTINGS } from "./settings.ts";

const NETNS = { fd: 8, inode: "42" };
const MAC = "02:00:00:00:00:0a";
const WIRING: BridgeWiring = {
  kind: "bridge",
  ...{ podInterfaceName: "pod1", bridgeName: "k6t-1", tapName: "tap1" },
  ...{ mac: MAC, mtu: 1450, owner: 107, queues: 1 },
};
const UP = ["UP", "LOWER_UP"];
const port = { master: "k6t-1", linkinfo: { info_slave_data: { learning: false } } };
const link = { mtu: 1450, flags: UP, addr_info: [] };
const NIC = { ...link, ifname: "pod1", ifindex: 2, address: MAC, linkinfo: { info_kind: "veth" } };
const ENSLAVED = { ...NIC, ...port };
const TAP = { ...link, ifname: "tap1", ifindex: 4, address: "5a:00:00:00:00:01", ...port };
const BRIDGE = {
  ...{ ...link, ifname: "k6t-1", ifindex: 3, address: "5e:00:00:00:00:0a" },
  flags: [...UP, "NOARP"],
  linkinfo: {
    info_kind: "bridge",
    info_data: { stp_state: 0, forward_delay: 0, mcast_snooping: 0 },
  },
};
const FORWARDED = { mac: MAC, ifname: "tap1", flags: [], master: "k6t-1", state: "static" };

const LOOK = `sh -c ip -j -d addr && bridge -j fdb && nft -s list ruleset && echo "-- settings" && ${READ_SETTINGS}`;
const LIST = "ip -j -d addr";
const IP_BATCH = "ip -batch -";
const BRIDGE_BATCH = "bridge -batch -";

function sight(links: readonly object[], forwarding: readonly object[] = [], rules = ""): string {
  return `${JSON.stringify(links)}\n${JSON.stringify(forwarding)}\n${rules}-- settings\n`;
}

/** What a program answers; text alone is its output, and it ended well. */
type Answer = string | Partial<CommandResult>;

/** A program that was run in the namespace: its words, and its standard input where it had one. */
interface Ran {
  readonly words: string;
  readonly stdin?: string;
}

const ENTER = "nsenter --net=/proc/self/fd/3 ";

function ranOf({ argv, stdin }: Command): Ran {
  const words = argv.join(" ").replace(ENTER, "");
  return stdin === undefined || stdin === "" ? { words } : { words, stdin };
}

/** What is answered to a command, first to its first run; the last answer stays. Nothing is printed by the others. */
function networkOf(script: Readonly<Record<string, readonly Answer[]>>): {
  readonly network: PodNetwork;
  readonly commands: readonly Command[];
  readonly ran: () => readonly Ran[];
} {
  const left = new Map(Object.entries(script).map(([words, answers]) => [words, [...answers]]));
  const play = (command: Command): Partial<CommandResult> => {
    const answers = left.get(ranOf(command).words) ?? [];
    const answer = (answers.length > 1 ? answers.shift() : answers[0]) ?? "";
    return typeof answer === "string" ? { stdout: answer } : answer;
  };
  const clock = createFakeClock();
  const runner = createFakeProcessRunner({ nsenter: play }, clock);
  const { commands } = runner;
  const network = createPodNetwork({ runner });
  return { network, commands, ran: () => commands.map(ranOf) };
}

describe("wiring a tap", () => {
  test("looks, sets the links, and moves the guest's MAC behind the tap, each in one program", async () => {
    const { network, ran } = networkOf({ [LOOK]: [sight([NIC])] });
    await network.wireTap(NETNS, WIRING);
    expect(ran().map(({ words }) => words)).toEqual([LOOK, IP_BATCH, BRIDGE_BATCH]);
    expect(ran()[1]?.stdin).toMatch(/^link add k6t-1 type bridge .*\n(.*\n)*link set pod1 .*\n$/);
    expect(ran()[2]?.stdin).toBe(
      `fdb del ${MAC} dev pod1 master\nfdb replace ${MAC} dev tap1 master static\n`,
    );
  });

  test("runs nothing more than the look when all is there", async () => {
    const wired = sight([ENSLAVED, BRIDGE, TAP], [FORWARDED]);
    const { network, ran } = networkOf({ [LOOK]: [wired] });
    await network.wireTap(NETNS, WIRING);
    expect(ran()).toEqual([{ words: LOOK }]);
  });

  test("looks again at what is forwarded when links of a wired NIC were set", async () => {
    const before = sight([ENSLAVED, { ...BRIDGE, flags: ["NOARP"] }], [FORWARDED]);
    const { network, ran } = networkOf({
      [LOOK]: [before, sight([ENSLAVED, BRIDGE, TAP])],
    });
    await network.wireTap(NETNS, WIRING);
    expect(ran().map(({ words }) => words)).toEqual([LOOK, IP_BATCH, LOOK, BRIDGE_BATCH]);
    expect(ran()[3]?.stdin).toBe(`fdb replace ${MAC} dev tap1 master static\n`);
  });

  test("enters the namespace by the descriptor, and ends a program that takes 10 s", async () => {
    const { network, commands } = networkOf({ [LOOK]: [sight([NIC])] });
    await network.wireTap(NETNS, WIRING);
    expect(commands[1]).toMatchObject({
      argv: ["nsenter", "--net=/proc/self/fd/3", "ip", "-batch", "-"],
      inheritFds: [NETNS],
      timeoutMs: 10_000,
    });
  });

  test.each([
    {
      name: "without the pod's NIC",
      links: [BRIDGE],
      error: { code: "PODNET_LINK_MISSING", details: { link: "pod1" } },
    },
    {
      name: "around a NIC that shares its parent's MAC",
      links: [{ ...NIC, linkinfo: { info_kind: "ipvlan" } }],
      error: {
        code: "PODNET_NETWORK_CANNOT_CARRY_VM",
        details: { kind: "ipvlan", link: "pod1" },
      },
    },
  ])("$name is refused, and nothing is changed", async ({ links, error }) => {
    const { network, ran } = networkOf({ [LOOK]: [sight(links)] });
    await expect(network.wireTap(NETNS, WIRING)).rejects.toMatchObject(error);
    expect(ran()).toEqual([{ words: LOOK }]);
  });

  test.each(["", "-x", "two words", "a\nlink del b", "tap1;"])(
    "of the name %j, which is no word of a batch, is refused before anything is run",
    async (tapName) => {
      const { network, ran } = networkOf({});
      const message = `${JSON.stringify(tapName)} is no name of a link`;
      const refused = { code: "PODNET_FAILED", details: { message } };
      await expect(network.wireTap(NETNS, { ...WIRING, tapName })).rejects.toMatchObject(refused);
      await expect(network.unwireTap(NETNS, { ...WIRING, tapName })).rejects.toMatchObject(refused);
      expect(ran()).toEqual([]);
    },
  );

  test("that a program refuses says what it said", async () => {
    const { network } = networkOf({
      [LOOK]: [sight([NIC])],
      [IP_BATCH]: [{ exitCode: 1, stderr: "RTNETLINK answers: File exists\n" }],
    });
    await expect(network.wireTap(NETNS, WIRING)).rejects.toMatchObject({
      code: "PODNET_FAILED",
      details: { message: "ip ended with 1: RTNETLINK answers: File exists" },
    });
  });
});

test("a look tells the links, and whether a wiring is complete", async () => {
  const both = [sight([ENSLAVED, BRIDGE, TAP], [FORWARDED]), sight([NIC])];
  const { network } = networkOf({ [LOOK]: both });
  const wired = await network.look(NETNS);
  expect(wired.links.map(({ name }) => name)).toEqual(["k6t-1", "pod1", "tap1"]);
  expect(wired.isWired(WIRING)).toBe(true);
  expect(wired.isWired({ ...WIRING, podInterfaceName: "pod2" })).toBe(false);
  expect((await network.look(NETNS)).isWired(WIRING)).toBe(false);
});

test("the list of links has all of them, by name", async () => {
  const { network } = networkOf({ [LIST]: [JSON.stringify([TAP, NIC])] });
  expect((await network.listLinks(NETNS)).map(({ name }) => name)).toEqual(["pod1", "tap1"]);
});

test("a look at a namespace of which nothing is said tells no links", async () => {
  const { network } = networkOf({});
  expect((await network.look(NETNS)).links).toEqual([]);
});

describe("unwiring a tap", () => {
  const all = sight([ENSLAVED, BRIDGE, TAP]);
  const failed = { exitCode: 1, stderr: "Cannot find device" };

  test("removes tap and bridge in one program", async () => {
    const { network, ran } = networkOf({ [LOOK]: [all] });
    await network.unwireTap(NETNS, WIRING);
    expect(ran()).toEqual([
      { words: LOOK },
      { words: IP_BATCH, stdin: "link del tap1\nlink del k6t-1\n" },
    ]);
  });

  test("runs nothing when neither is there", async () => {
    const { network, ran } = networkOf({ [LOOK]: [sight([NIC])] });
    await network.unwireTap(NETNS, WIRING);
    expect(ran()).toEqual([{ words: LOOK }]);
  });

  test("of which somebody else removed the tap meanwhile removes the bridge", async () => {
    const { network, ran } = networkOf({
      [LOOK]: [all],
      [LIST]: [JSON.stringify([NIC, BRIDGE])],
      [IP_BATCH]: [failed, ""],
    });
    await network.unwireTap(NETNS, WIRING);
    expect(ran().at(-1)).toEqual({ words: IP_BATCH, stdin: "link del k6t-1\n" });
  });

  test("of which nothing could be removed fails", async () => {
    const { network, ran } = networkOf({
      [LOOK]: [all],
      [LIST]: [JSON.stringify([NIC, BRIDGE, TAP])],
      [IP_BATCH]: [failed],
    });
    await expect(network.unwireTap(NETNS, WIRING)).rejects.toMatchObject({ code: "PODNET_FAILED" });
    expect(ran().filter(({ words }) => words === IP_BATCH)).toHaveLength(1);
  });
});

describe("removing a NIC past its plugin", () => {
  const DELETE = "ip link delete dev pod1";
  const there = JSON.stringify([NIC]);
  const refused = { exitCode: 2, stderr: "Operation not supported" };

  test.each<{
    name: string;
    script: Readonly<Record<string, readonly Answer[]>>;
    ran: readonly string[];
  }>([
    {
      name: "that is not there runs nothing",
      script: { [LIST]: [JSON.stringify([TAP])] },
      ran: [],
    },
    { name: "deletes it", script: { [LIST]: [there] }, ran: [DELETE] },
    {
      name: "that goes meanwhile is success",
      script: { [LIST]: [there, "[]"], [DELETE]: [refused] },
      ran: [DELETE],
    },
    {
      name: "that is a card gives it back to the machine",
      script: { [LIST]: [there], [DELETE]: [refused] },
      ran: [DELETE, "ip link set dev pod1 netns 1"],
    },
  ])("$name", async ({ script, ran: wanted }) => {
    const { network, ran } = networkOf(script);
    await network.removeLink(NETNS, "pod1");
    expect(
      ran()
        .map(({ words }) => words)
        .filter((words) => words !== LIST),
    ).toEqual(wanted);
  });

  test("that can neither be deleted nor given back fails", async () => {
    const { network } = networkOf({
      [LIST]: [there],
      [DELETE]: [refused],
      "ip link set dev pod1 netns 1": [refused],
    });
    await expect(network.removeLink(NETNS, "pod1")).rejects.toMatchObject({
      code: "PODNET_FAILED",
    });
  });
});
