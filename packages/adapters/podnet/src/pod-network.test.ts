// SPDX-License-Identifier: Apache-2.0
import type { BridgeWiring } from "@patchbay/core/nics";
import type { Command, CommandResult, Netlink, PodNetwork } from "@patchbay/core/interfaces";
import { createFakeClock, createFakeProcessRunner } from "@patchbay/os/testing";
import { describe, expect, test } from "vitest";
import { createPodNetwork } from "./pod-network.ts";
import {
  createKernel,
  MutableKernel,
  type KernelOptions,
  type EntryOptions,
  type LinkOptions,
} from "./testing/fake-kernel.ts";

const NETNS = { fd: 8, inode: "42" };
const MAC = "02:00:00:00:00:0a";
const WIRING: BridgeWiring = {
  kind: "bridge",
  podInterfaceName: "pod1",
  bridgeName: "k6t-1",
  tapName: "tap1",
  mac: MAC,
  mtu: 1450,
  owner: 107,
  queues: 1,
};
// As around a guest that is held to nothing.
const port = { master: 3, isLearning: false, groupMask: 0xfffd } as const;
const link = { mtu: 1450, flags: ["up", "carrier"] } as const;
const NIC: LinkOptions = { ...link, name: "pod1", index: 2, mac: MAC, kind: "veth" };
const ENSLAVED: LinkOptions = { ...NIC, ...port };
const TAP: LinkOptions = { ...link, name: "tap1", index: 4, kind: "tun", ...port };
const BRIDGE: LinkOptions = {
  ...link,
  name: "k6t-1",
  index: 3,
  kind: "bridge",
  mac: "5e:00:00:00:00:0a",
  flags: ["up", "carrier", "noArp"],
};
const FORWARDED: EntryOptions = { mac: MAC, index: 4, master: 3, state: "static" };

const RULES = "nft -s -t -p list ruleset";

function state(
  links: readonly LinkOptions[],
  forwarding: readonly EntryOptions[] = [],
  rules?: number,
): KernelOptions {
  return { links, forwarding, ...(rules === undefined ? {} : { rules }) };
}

/** What a program answers; text alone is its output, and it ended well. */
type Answer = string | Partial<CommandResult>;

/** A program that was run in the namespace: its words, and its standard input where it had one. */
interface Ran {
  readonly command: string;
  readonly stdin?: string;
}

const ENTER = "nsenter --net=/proc/self/fd/3 ";

function toRan({ argv, stdin }: Command): Ran {
  const command = argv.join(" ").replace(ENTER, "");
  return stdin === undefined || stdin === "" ? { command } : { command, stdin };
}

/**
 * What is seen, look by look, and what is answered to a command, first to its first run; the last stays. Nothing is
 * printed by the others.
 */
function createNetwork(
  states: readonly KernelOptions[],
  script: Readonly<Record<string, readonly Answer[]>> = {},
): {
  readonly network: PodNetwork;
  readonly commands: readonly Command[];
  readonly ran: () => readonly Ran[];
} {
  const remaining = new Map(
    Object.entries(script).map(([words, answers]) => [words, [...answers]]),
  );
  const play = (command: Command): Partial<CommandResult> => {
    const answers = remaining.get(toRan(command).command) ?? [];
    const answer = (answers.length > 1 ? answers.shift() : answers[0]) ?? "";
    return typeof answer === "string" ? { stdout: answer } : answer;
  };
  const clock = createFakeClock();
  const runner = createFakeProcessRunner({ nsenter: play }, clock);
  const { commands } = runner;
  let observations = -1;
  const netlink = createKernel(
    () => states[Math.max(0, Math.min(observations, states.length - 1))] ?? {},
  );
  const counted: Netlink = {
    ...netlink,
    // Whoever looks asks for links once, and for rules.
    exchangeMessages: (netns, protocol, messages) => {
      if (protocol === "route") observations += 1;
      return netlink.exchangeMessages(netns, protocol, messages);
    },
  };
  const network = createPodNetwork({ runner, netlink: counted });
  return { network, commands, ran: () => commands.map(toRan) };
}

/** A network in a namespace that changes as it is told. */
function livingIn(options: KernelOptions, refused: Readonly<Record<string, number>> = {}) {
  const kernel = new MutableKernel(options, refused);
  const runner = createFakeProcessRunner({}, createFakeClock());
  const network = createPodNetwork({ runner, netlink: kernel.netlink });
  return { network, kernel, commands: runner.commands };
}

const LINK_SET = (index: number, times: number): readonly string[] =>
  Array.from({ length: times }, () => `newLink ${String(index)}`);

describe("wiring a tap", () => {
  test("creates bridge and tap, configures them and the NIC, and moves the guest's MAC behind the tap", async () => {
    const nic = { ...NIC, addresses: ["10.0.0.2/24"] };
    const { network, kernel, commands } = livingIn(state([nic]));
    await network.wireTap(NETNS, WIRING);
    expect(kernel.requests).toEqual([
      "newLink 0",
      ...LINK_SET(3, 2),
      "makeTap tap1",
      ...LINK_SET(4, 6),
      "newLink 2",
      "deleteAddress 2",
      ...LINK_SET(2, 3),
      "deleteNeighbour 2",
      "newNeighbour 4",
    ]);
    expect(commands).toEqual([]);
  });

  test("changes nothing when everything exists", async () => {
    const { network, kernel } = livingIn(state([ENSLAVED, BRIDGE, TAP], [FORWARDED]));
    await network.wireTap(NETNS, WIRING);
    expect(kernel.requests).toEqual([]);
  });

  test("checks forwarding again after it configured links of a wired NIC", async () => {
    const down = { ...BRIDGE, flags: ["noArp"] } as const;
    const { network, kernel } = livingIn(state([ENSLAVED, down, TAP]));
    await network.wireTap(NETNS, WIRING);
    expect(kernel.requests).toEqual(["newLink 3", "newNeighbour 4"]);
  });

  test.each([
    {
      name: "a pod without the NIC",
      links: [BRIDGE],
      error: { code: "PODNET_LINK_MISSING", details: { link: "pod1" } },
    },
    {
      name: "a NIC that shares its parent's MAC",
      links: [{ ...NIC, kind: "ipvlan" }],
      error: {
        code: "PODNET_NETWORK_CANNOT_CARRY_VM",
        details: { kind: "ipvlan", link: "pod1" },
      },
    },
  ])("$name is rejected, and nothing changes", async ({ links, error }) => {
    const { network, ran } = createNetwork([state(links)]);
    await expect(network.wireTap(NETNS, WIRING)).rejects.toMatchObject(error);
    expect(ran()).toEqual([]);
  });

  test.each(["", "-x", "two words", "a\nlink del b", "tap1;"])(
    "of the invalid name %j is rejected before any command runs",
    async (tapName) => {
      const { network, ran } = createNetwork([]);
      const message = `${JSON.stringify(tapName)} is not a valid link name`;
      const refused = { code: "PODNET_ARGUMENT_INVALID", details: { reason: message } };
      await expect(network.wireTap(NETNS, { ...WIRING, tapName })).rejects.toMatchObject(refused);
      await expect(network.unwireTap(NETNS, { ...WIRING, tapName })).rejects.toMatchObject(refused);
      expect(ran()).toEqual([]);
    },
  );

  test("reports the command that the kernel rejects, and stops", async () => {
    const { network, kernel } = livingIn(state([NIC]), { "newLink 3": 16 });
    await expect(network.wireTap(NETNS, WIRING)).rejects.toMatchObject({
      code: "PODNET_FAILED",
      details: {
        message: expect.stringMatching(
          /^the kernel refused "ip link set k6t-1 address 5e:.* arp off": .*\(EBUSY\)$/,
        ) as string,
      },
    });
    expect(kernel.requests).toEqual(["newLink 0", "newLink 3"]);
  });
});

test("an observation contains the links and whether a wiring is complete", async () => {
  const both = [state([ENSLAVED, BRIDGE, TAP], [FORWARDED]), state([NIC])];
  const { network } = createNetwork(both);
  const wired = await network.observe(NETNS);
  expect(wired.links.map(({ name }) => name)).toEqual(["k6t-1", "pod1", "tap1"]);
  expect(wired.isWired(WIRING)).toBe(true);
  expect(wired.isWired({ ...WIRING, podInterfaceName: "pod2" })).toBe(false);
  expect((await network.observe(NETNS)).isWired(WIRING)).toBe(false);
});

describe("the nftables rules of a namespace", () => {
  const guarded = "table netdev patchbay-tap1 {\n}\n";

  test("are read once for each generation while the handle is the same", async () => {
    const links = [ENSLAVED, BRIDGE, TAP];
    const states = [1, 1, 2].map((rules) => state(links, [FORWARDED], rules));
    const { network, ran } = createNetwork(states, { [RULES]: [guarded, ""] });
    const observed: boolean[] = [];
    while (observed.length < states.length)
      observed.push((await network.observe(NETNS)).isWired(WIRING));
    expect(observed).toEqual([false, false, true]);
    expect(ran()).toEqual([{ command: RULES }, { command: RULES }]);
    await network.observe({ ...NETNS });
    expect(ran()).toHaveLength(3);
  });

  test("are not read if there are no tables", async () => {
    const { network, ran } = createNetwork([state([ENSLAVED, BRIDGE, TAP], [FORWARDED])]);
    expect((await network.observe(NETNS)).isWired(WIRING)).toBe(true);
    expect(ran()).toEqual([]);
  });
});

test("lists all links by name", async () => {
  const { network } = createNetwork([state([TAP, NIC])]);
  expect((await network.listLinks(NETNS)).map(({ name }) => name)).toEqual(["pod1", "tap1"]);
});

test("observes no links in a namespace without data", async () => {
  const { network } = createNetwork([]);
  expect((await network.observe(NETNS)).links).toEqual([]);
});

describe("unwiring a tap", () => {
  const all = state([ENSLAVED, BRIDGE, TAP]);

  test("removes the tap, then the bridge", async () => {
    const { network, kernel } = livingIn(all);
    await network.unwireTap(NETNS, WIRING);
    expect(kernel.requests).toEqual(["deleteLink 4", "deleteLink 3"]);
  });

  test("changes nothing when neither exists", async () => {
    const { network, kernel } = livingIn(state([NIC]));
    await network.unwireTap(NETNS, WIRING);
    expect(kernel.requests).toEqual([]);
  });

  test("removes the bridge if another process removed the tap meanwhile", async () => {
    const { network, kernel } = livingIn(all, { "deleteLink 4": 19 });
    await network.unwireTap(NETNS, WIRING);
    expect(kernel.requests).toEqual(["deleteLink 4", "deleteLink 3"]);
  });

  test("fails if nothing could be removed", async () => {
    const { network, kernel } = livingIn(all, { "deleteLink 4": 1, "deleteLink 3": 1 });
    kernel.ignoresDeletes = true;
    await expect(network.unwireTap(NETNS, WIRING)).rejects.toMatchObject({ code: "PODNET_FAILED" });
    expect(kernel.requests).toEqual(["deleteLink 4"]);
  });
});

describe("removing a NIC without its plugin", () => {
  const DELETE = "ip link delete dev pod1";
  const existing = [state([NIC])];
  const refused = { exitCode: 2, stderr: "Operation not supported" };

  test.each<{
    name: string;
    states: readonly KernelOptions[];
    script?: Readonly<Record<string, readonly Answer[]>>;
    ran: readonly string[];
  }>([
    {
      name: "does nothing if the NIC is missing",
      states: [state([TAP])],
      ran: [],
    },
    { name: "deletes the NIC", states: existing, ran: [DELETE] },
    {
      name: "succeeds if the NIC disappears meanwhile",
      states: [...existing, state([])],
      script: { [DELETE]: [refused] },
      ran: [DELETE],
    },
    {
      name: "returns a physical NIC to the host's network namespace",
      states: existing,
      script: { [DELETE]: [refused] },
      ran: [DELETE, "ip link set dev pod1 netns 1"],
    },
  ])("$name", async ({ states, script, ran: wanted }) => {
    const { network, ran } = createNetwork(states, script);
    await network.removeLink(NETNS, "pod1");
    expect(ran().map(({ command: words }) => words)).toEqual(wanted);
  });

  test("that can be neither deleted nor returned to the machine fails", async () => {
    const { network } = createNetwork(existing, {
      [DELETE]: [refused],
      "ip link set dev pod1 netns 1": [refused],
    });
    await expect(network.removeLink(NETNS, "pod1")).rejects.toMatchObject({
      code: "PODNET_FAILED",
    });
  });
});
