// SPDX-License-Identifier: Apache-2.0
// podnet fulfills its contract on the kernel, and frames pass through its wiring.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createNetlink, createProcessRunner } from "@patchbay/os";
import { createPodNetwork } from "@patchbay/podnet";
import type { NetnsHandle, PodNetwork, ProcessRunner } from "@patchbay/core/interfaces";
import { describePodNetworkContract } from "@patchbay/podnet/testing";
import { eventually, run } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  addGuest,
  addHost,
  addNic,
  guestWiring,
  MAC,
  makeNetwork,
  Namespaces,
  ping,
  PREFIX,
  WIRING,
} from "./links.ts";
import { dyingAfter } from "./dying-agent.ts";

describe.each(["veth", "macvlan"])("on the kernel with %s", (kind) => {
  describePodNetworkContract("iproute2", kind, () => {
    const namespaces = new Namespaces();
    const host = addHost(namespaces);
    const pod = namespaces.add("pod");
    return Promise.resolve({
      network: makeNetwork(),
      netns: namespaces.open(pod),
      addNic: (nic) => {
        addNic({ host, pod }, nic);
        return Promise.resolve();
      },
      removeNic: (name) => {
        run("ip", "-n", pod, "link", "del", name);
        return Promise.resolve();
      },
      close: () => {
        namespaces.close();
        return Promise.resolve();
      },
    });
  });
});

describe("frames", () => {
  const namespaces = new Namespaces();
  let host: string;
  beforeEach(() => {
    host = addHost(namespaces);
  });
  afterEach(() => {
    namespaces.close();
  });

  test.each([
    ["veth", "veth"],
    ["macvlan", "macvlan"],
    ["veth", "macvlan"],
  ])("pass between a guest on %s and a guest on %s", async (one, other) => {
    const first = await addGuest({ namespaces, host }, 1, one);
    const second = await addGuest({ namespaces, host }, 2, other);
    expect(ping(first, "10.9.0.2")).toContain(" 0% packet loss");
    expect(ping(second, "10.9.0.1")).toContain(" 0% packet loss");
    expect(ping(first, "-6", "fd09::2")).toContain(" 0% packet loss");
    expect(ping(first, "-s", "1372", "10.9.0.2")).toContain(" 0% packet loss");
  });

  test("the pod does not answer for the guest's address", async () => {
    const first = await addGuest({ namespaces, host }, 1, "veth");
    await addGuest({ namespaces, host }, 2, "veth");
    // 10.9.0.102 was on the pod's NIC before it was wired.
    expect(() => ping(first, "10.9.0.102")).toThrow("Command failed");
    expect(ping(first, "10.9.0.2")).toContain(" 0% packet loss");
  });

  test("still pass when the wiring was interrupted before the forwarding entries", async () => {
    const first = await addGuest({ namespaces, host }, 1, "macvlan");
    const second = await addGuest({ namespaces, host }, 2, "macvlan");
    const pod = `${PREFIX}-pod1`;
    const { mac } = guestWiring(1);
    run("bridge", "-n", pod, "fdb", "del", mac, "dev", "tap1", "master");
    run("bridge", "-n", pod, "fdb", "replace", mac, "dev", "pod1", "master", "permanent");
    expect(() => ping(second, "10.9.0.1")).toThrow("Command failed");
    await makeNetwork().wireTap(namespaces.open(pod), guestWiring(1));
    expect(ping(first, "10.9.0.2")).toContain(" 0% packet loss");
  });
});

describe("a guest that sends with another MAC", () => {
  const namespaces = new Namespaces();
  afterEach(() => {
    namespaces.close();
  });

  test("does not make the bridge learn that MAC behind the tap", async () => {
    const host = addHost(namespaces);
    const pod = namespaces.add("pod");
    const guest = namespaces.add("guest");
    addNic({ host, pod }, { name: "pod1", kind: "veth", mac: MAC });
    const peer = ["peer", "name", "eth0", "address", MAC, "netns", guest];
    run("ip", "-n", pod, "link", "add", "tap1", "type", "veth", ...peer);
    run("ip", "-n", guest, "link", "set", "eth0", "up");
    await makeNetwork().wireTap(namespaces.open(pod), WIRING);
    const gateway = "02:00:00:00:00:fe";
    run("ip", "-n", guest, "link", "set", "eth0", "address", gateway);
    run("ip", "-n", guest, "addr", "add", "10.9.0.1/24", "dev", "eth0");
    const probe = ["netns", "exec", guest, "busybox", "ping", "-c", "1", "-W", "1", "10.9.0.2"];
    expect(() => run("ip", ...probe)).toThrow("Command failed");
    const entries = run("bridge", "-n", pod, "fdb", "show", "br", "k6t-1");
    expect(entries).not.toContain(gateway);
  });
});

describe("taps", () => {
  const namespaces = new Namespaces();
  let host: string;
  let pod: string;
  let netns: NetnsHandle;
  beforeEach(async () => {
    host = addHost(namespaces);
    pod = namespaces.add("pod");
    addNic({ host, pod }, { name: WIRING.podInterfaceName, kind: "veth", mac: MAC });
    netns = namespaces.open(pod);
    await makeNetwork().wireTap(netns, WIRING);
  });
  afterEach(() => {
    namespaces.close();
  });

  test("belong to the launchers' user", () => {
    const details: unknown = JSON.parse(run("ip", "-n", pod, "-j", "-d", "tuntap", "show"));
    expect(details).toMatchObject([{ ifname: "tap1", user: 107, group: 107 }]);
  });

  test("report whether QEMU has them open, and a recreated tap is not open", async () => {
    const isOpen = async (): Promise<boolean | undefined> =>
      (await makeNetwork().listLinks(netns)).find(({ name }) => name === "tap1")?.carrier;
    expect(await isOpen()).toBe(false);
    const netdev = "tap,id=n,ifname=tap1,script=no,downscript=no";
    const qemu = spawn(
      "ip",
      [
        "netns",
        "exec",
        pod,
        "qemu-system-x86_64",
        "-M",
        "none",
        "-nodefaults",
        "-display",
        "none",
      ].concat(["-netdev", netdev]),
      { stdio: "ignore" },
    );
    const ended = once(qemu, "exit");
    try {
      await eventually(isOpen, { withinMs: 10_000 });
      run("ip", "-n", pod, "link", "del", "tap1");
      await makeNetwork().wireTap(netns, WIRING);
      expect((await makeNetwork().observe(netns)).isWired(WIRING)).toBe(true);
      expect(await isOpen()).toBe(false);
    } finally {
      qemu.kill("SIGKILL");
      await ended;
    }
  });
});

describe.each(["veth", "macvlan"])("an interrupted wiring around a %s", (kind) => {
  const namespaces = new Namespaces();
  let host: string;
  beforeAll(() => {
    host = addHost(namespaces);
  });
  afterAll(() => {
    namespaces.close();
  });

  function addPod(role: string): NetnsHandle {
    const pod = namespaces.add(role);
    addNic({ host, pod }, { name: WIRING.podInterfaceName, kind, mac: "02:00:00:00:5e:99" });
    run("ip", "-n", pod, "addr", "add", "10.9.0.101/24", "dev", "pod1");
    run("ip", "-n", pod, "link", "set", "pod1", "up");
    return namespaces.open(pod);
  }

  /** All that wiring creates, in the kernel's form, without random values. */
  function stateOf(role: string): unknown {
    const pod = `${PREFIX}-${role}`;
    // The operational state is left out, because the kernel sets it a moment later.
    const links = run("ip", "-n", pod, "-o", "-d", "link").replaceAll(
      /^.*\bfar\b.*$| state \S+/gm,
      "",
    );
    const named = ["k6t-1", "tap1", "pod1"].map((name) => {
      const line = links.split("\n").find((text) => new RegExp(`^\\d+: ${name}[@:]`).test(text));
      const words =
        /addrgenmode \S+|master \S+|learning \S+|mtu \d+|mcast_snooping \d|NOARP|\bUP\b/g;
      return [name, ...(line?.match(words) ?? [])];
    });
    const addresses = run("ip", "-n", pod, "-o", "addr").match(/inet6? \S+/g);
    const entries = run("bridge", "-n", pod, "fdb").match(new RegExp(`^${MAC}.*$`, "gm"));
    return { named, addresses, entries };
  }

  const isWired = async (netns: NetnsHandle): Promise<boolean> =>
    (await makeNetwork().observe(netns)).isWired(WIRING);

  /** The observed state after so many commands, and the result after rewiring. */
  async function cutAfter(commands: number) {
    const role = `cut${String(commands)}`;
    const netns = addPod(role);
    const dying = createPodNetwork(dyingAfter(commands));
    const isCut = await dying.wireTap(netns, WIRING).then(
      () => false,
      () => true,
    );
    const observed = await isWired(netns);
    await makeNetwork().wireTap(netns, WIRING);
    const after = { isWired: await isWired(netns), state: stateOf(role) };
    // Two macvlans of one parent cannot have the same MAC.
    run("ip", "-n", `${PREFIX}-${role}`, "link", "del", WIRING.podInterfaceName);
    return { isCut, seen: observed, after };
  }

  test("is detected as incomplete after any of its commands and completed by the next", async () => {
    let commands = 0;
    let last = await cutAfter(commands);
    const outcomes = [last];
    while (last.isCut) {
      commands += 1;
      last = await cutAfter(commands);
      outcomes.push(last);
    }
    expect(commands).toBeGreaterThan(12);
    expect(outcomes.map(({ seen: observed }) => observed)).toEqual(
      outcomes.map(({ isCut }) => !isCut),
    );
    expect(outcomes.map(({ after }) => after)).toEqual(outcomes.map(() => last.after));
    expect(last.after.isWired).toBe(true);
  });
});

test("the bridge follows the MTU of the tap, and the pod NIC keeps its own", async () => {
  const namespaces = new Namespaces();
  try {
    const host = addHost(namespaces);
    const pod = namespaces.add("pod");
    addNic({ host, pod }, { name: WIRING.podInterfaceName, kind: "veth", mac: MAC });
    const network = makeNetwork();
    const netns = namespaces.open(pod);
    for (const mtu of [1300, 1280, 1400]) {
      const wiring = { ...WIRING, mtu };
      await network.wireTap(netns, wiring);
      const { links, isWired } = await network.observe(netns);
      const mtuOf = (name: string) => links.find((link) => link.name === name)?.mtu;
      expect([WIRING.tapName, WIRING.bridgeName].map(mtuOf)).toEqual([mtu, mtu]);
      expect(mtuOf(WIRING.podInterfaceName)).toBe(1500);
      expect(isWired(wiring)).toBe(true);
      expect(isWired({ ...wiring, mtu: mtu + 1 })).toBe(false);
    }
  } finally {
    namespaces.close();
  }
});

test("lists the rules only after another program has changed them", async () => {
  const namespaces = new Namespaces();
  try {
    const host = addHost(namespaces);
    const pod = namespaces.add("pod");
    addNic({ host, pod }, { name: WIRING.podInterfaceName, kind: "veth", mac: MAC });
    const real = createProcessRunner();
    const lists: string[] = [];
    const runner: ProcessRunner = {
      ...real,
      run: (command) => {
        if (command.argv.includes("list")) lists.push(command.argv.join(" "));
        return real.run(command);
      },
    };
    const network = createPodNetwork({ runner, netlink: createNetlink() });
    const netns = namespaces.open(pod);
    const guard = { macs: [MAC], allowsServers: false, addresses: ["10.9.0.5"] };
    const limits = {
      outbound: { average: { bytesPerSecond: 1_000_000, burstBytes: 50_000 }, queueBytes: 150_000 },
    };
    const wiring = { ...WIRING, guard, limits, policy: { ingress: [{ peers: ["10.0.0.1"] }] } };
    const isComplete = async (observer: PodNetwork): Promise<boolean> => {
      const { isWired, hasPolicy } = await observer.observe(netns);
      return isWired(wiring) && hasPolicy(wiring);
    };
    await network.wireTap(netns, wiring);
    expect([await isComplete(network), await isComplete(makeNetwork())]).toEqual([true, true]);
    expect(lists).toEqual([]);
    run("ip", "netns", "exec", pod, "nft", "flush", "table", "netdev", "patchbay-tap1");
    expect([await isComplete(network), await isComplete(makeNetwork())]).toEqual([false, false]);
    await network.wireTap(netns, wiring);
    expect([await isComplete(network), await isComplete(makeNetwork())]).toEqual([true, true]);
    await network.unwireTap(netns, wiring);
    expect(run("ip", "netns", "exec", pod, "nft", "list", "ruleset")).toBe("");
    expect(lists).toHaveLength(1);
  } finally {
    namespaces.close();
  }
});
