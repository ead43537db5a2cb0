// SPDX-License-Identifier: Apache-2.0
// Which of a guest's frames reach the network: claims of foreign MACs and addresses, and messages of switches, servers
// and routers.
import { buildWiring, type SendGuard } from "@patchbay/core/nics";
import { eventually, run } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  addGuest,
  addHost,
  guestWiring,
  makeNetwork,
  Namespaces,
  ping,
  PREFIX,
} from "../../contract/podnet/links.ts";
import { arp, frame, nd, ND, rarp, sendFrames, udp } from "./frames.ts";

const OWN = { mac: guestWiring(1).mac, ipv4: "10.9.0.1", ipv6: "fd09::1" };
const OTHER = { mac: guestWiring(2).mac, ipv4: "10.9.0.2", ipv6: "fd09::2" };
/** The link-local address that every host derives from its MAC. Source: RFC 4291, appendix A */
const LINK_LOCAL = "fe80::ff:fe00:5e01";
const ALL = "ff:ff:ff:ff:ff:ff";
const ALL_NODES = "33:33:00:00:00:01";
const ADDRESSES: SendGuard = {
  macs: [OWN.mac],
  allowsServers: false,
  addresses: [OWN.ipv4, OWN.ipv6, LINK_LOCAL],
};
const MAC: SendGuard = { macs: [OWN.mac], allowsServers: false };

const COUNT = 40;
/** The guests' kernels send a few frames of their own. */
const MOST = COUNT / 2;

const HOSTILE: readonly { name: string; hex: string; passesByMac?: true }[] = [
  { name: "attack 33: a frame from another guest's MAC", hex: frame(ALL, OTHER.mac, "88b5") },
  {
    name: "attack 34: gratuitous ARP for another guest's address",
    hex: frame(ALL, OWN.mac, arp({ op: 2, mac: OWN.mac, ip: OTHER.ipv4, asks: OTHER.ipv4 })),
    passesByMac: true,
  },
  {
    name: "attack 34: ARP that maps its own address to another guest's MAC",
    hex: frame(ALL, OWN.mac, arp({ op: 2, mac: OTHER.mac, ip: OWN.ipv4, asks: OWN.ipv4 })),
  },
  {
    name: "attack 34: an ARP probe that blocks another guest's address",
    hex: frame(ALL, OWN.mac, arp({ op: 1, mac: OWN.mac, ip: "0.0.0.0", asks: OTHER.ipv4 })),
    passesByMac: true,
  },
  {
    name: "attack 34: the same ARP behind a priority tag (VLAN 0)",
    hex: frame(
      ALL,
      OWN.mac,
      `81000000${arp({ op: 2, mac: OWN.mac, ip: OTHER.ipv4, asks: OTHER.ipv4 })}`,
    ),
  },
  {
    name: "attack 34: a neighbor advertisement for another guest's address",
    hex: frame(ALL_NODES, OWN.mac, nd(OWN.ipv6, ND.advertises, OTHER.ipv6)),
    passesByMac: true,
  },
  {
    name: "attack 34: a neighbor advertisement from another guest's address",
    hex: frame(ALL_NODES, OWN.mac, nd(OTHER.ipv6, ND.advertises, OWN.ipv6)),
    passesByMac: true,
  },
  {
    name: "attack 34: a probe that blocks another guest's IPv6 address",
    hex: frame(ALL_NODES, OWN.mac, nd("::", ND.solicits, OTHER.ipv6)),
    passesByMac: true,
  },
  {
    name: "attack 34: a packet from another guest's address",
    hex: frame(ALL, OWN.mac, udp(OTHER.ipv4, "10.9.0.255", [9, 9])),
    passesByMac: true,
  },
  {
    name: "attack 35: a spanning tree BPDU",
    hex: frame("01:80:c2:00:00:00", OWN.mac, "0026424203"),
  },
  {
    name: "attack 35: a Cisco spanning tree BPDU",
    hex: frame("01:00:0c:cc:cc:cd", OWN.mac, "0032aaaa03"),
  },
  {
    name: "attack 35: a DHCP server's reply",
    hex: frame(ALL, OWN.mac, udp(OWN.ipv4, "255.255.255.255", [67, 68])),
  },
  {
    name: "attack 35: a DHCPv6 server's reply",
    hex: frame(ALL_NODES, OWN.mac, udp(LINK_LOCAL, "ff02::1", [547, 546])),
  },
  {
    name: "attack 35: a router advertisement",
    hex: frame(ALL_NODES, OWN.mac, nd(LINK_LOCAL, ND.advertisesRouter, OWN.ipv6)),
  },
  {
    name: "attack 35: a redirect",
    hex: frame(ALL_NODES, OWN.mac, nd(LINK_LOCAL, ND.redirects, OTHER.ipv6)),
  },
];

const HONEST: readonly { name: string; hex: string }[] = [
  {
    name: "ARP for its own address",
    hex: frame(ALL, OWN.mac, arp({ op: 1, mac: OWN.mac, ip: OWN.ipv4, asks: OTHER.ipv4 })),
  },
  {
    name: "a probe for its own address",
    hex: frame(ALL, OWN.mac, arp({ op: 1, mac: OWN.mac, ip: "0.0.0.0", asks: OWN.ipv4 })),
  },
  {
    name: "a request to a DHCP server",
    hex: frame(ALL, OWN.mac, udp("0.0.0.0", "255.255.255.255", [68, 67])),
  },
  {
    name: "a neighbor advertisement for its own address",
    hex: frame(ALL_NODES, OWN.mac, nd(OWN.ipv6, ND.advertises, OWN.ipv6)),
  },
  {
    name: "a probe for its own link-local address",
    hex: frame(ALL_NODES, OWN.mac, nd("::", ND.solicits, LINK_LOCAL)),
  },
  {
    name: "a packet from its own address",
    hex: frame(ALL, OWN.mac, udp(OWN.ipv4, "10.9.0.255", [9, 9])),
  },
  {
    name: "QEMU's announcement after a migration",
    hex: frame(ALL, OWN.mac, rarp(OWN.mac, OWN.mac)),
  },
];

const namespaces = new Namespaces();
let host: string;
let attacker: string;
let victim: string;

/** How many of {@link COUNT} frames leave the pod. */
function reached(hex: string): number {
  const file = "/sys/class/net/pod1pod1/statistics/rx_packets";
  const count = (): number => Number(run("ip", "netns", "exec", host, "cat", file));
  const before = count();
  sendFrames(attacker, hex, COUNT);
  return count() - before;
}

async function hold(guard: SendGuard | undefined): Promise<void> {
  const wiring = { ...guestWiring(1), ...(guard === undefined ? {} : { guard }) };
  await makeNetwork().wireTap(namespaces.open(`${PREFIX}-pod1`), wiring);
}

/** The port at which the network has learned the victim. */
function portOfVictim(): string {
  const entries = run("bridge", "-n", host, "fdb", "show", "br", "br0").split("\n");
  const own = entries.find((line) => line.startsWith(OTHER.mac) && !line.includes("permanent"));
  return own?.split(" ")[2] ?? "";
}

beforeAll(async () => {
  host = addHost(namespaces);
  attacker = await addGuest({ namespaces, host }, 1, "veth");
  victim = await addGuest({ namespaces, host }, 2, "veth");
});

afterAll(() => {
  namespaces.close();
});

describe("a guest restricted to its MAC and addresses", () => {
  beforeAll(() => hold(ADDRESSES));

  test.each(HOSTILE)("blocks $name", ({ hex }) => {
    expect(reached(hex)).toBeLessThan(MOST);
  });

  test.each(HONEST)("sends $name", ({ hex }) => {
    expect(reached(hex)).toBeGreaterThanOrEqual(COUNT);
  });

  test("reaches another guest over both address families", () => {
    expect(ping(attacker, OTHER.ipv4)).toContain(" 0% packet loss");
    expect(ping(victim, "-6", OWN.ipv6)).toContain(" 0% packet loss");
  });
});

test("attack 83: another guest's address in the pod's annotation does not allow the guest to claim it", async () => {
  const { podInterfaceName, mac } = guestWiring(1);
  const wiring = buildWiring({
    name: "one",
    podInterfaceName,
    binding: { kind: "bridge" },
    iface: { name: "one", bridge: {}, macAddress: mac },
    network: { name: "one", pod: {} },
    attachment: { name: "one", podInterfaceName, state: "Attached", ips: [OTHER.ipv4] },
    remembered: { podInterfaceName, index: 2, addresses: [`${OWN.ipv4}/24`], routes: [] },
  });
  await hold(wiring?.guard);
  const says = (ip: string): number => reached(frame(ALL, mac, arp({ op: 2, mac, ip, asks: ip })));
  expect(says(OTHER.ipv4)).toBeLessThan(MOST);
  expect(says(OWN.ipv4)).toBeGreaterThanOrEqual(COUNT);
});

describe("a guest restricted to its MAC", () => {
  beforeAll(() => hold(MAC));

  test.each(HOSTILE.filter(({ passesByMac }) => passesByMac !== true))(
    "blocks $name",
    ({ hex }) => {
      expect(reached(hex)).toBeLessThan(MOST);
    },
  );

  test.each(HONEST)("sends $name", ({ hex }) => {
    expect(reached(hex)).toBeGreaterThanOrEqual(COUNT);
  });

  test("sends tagged frames", () => {
    expect(reached(frame(ALL, OWN.mac, "8100000588b5"))).toBeGreaterThanOrEqual(COUNT);
  });

  test("does not receive another guest's frames", () => {
    ping(victim, OWN.ipv4);
    const before = portOfVictim();
    expect(before).not.toBe("");
    sendFrames(attacker, HOSTILE[0]?.hex ?? "", COUNT);
    expect(portOfVictim()).toBe(before);
  });
});

describe("an unrestricted guest", () => {
  beforeAll(() => hold(undefined));

  test.each(HOSTILE)("confirms that the network receives $name", ({ hex }) => {
    expect(reached(hex)).toBeGreaterThanOrEqual(COUNT);
  });

  test("receives another guest's frames", async () => {
    // The victim may have accepted an earlier frame, and may send just after the attacker.
    const takeAway = (): boolean => {
      run("ip", "-n", victim, "neigh", "flush", "dev", "eth0");
      ping(victim, OWN.ipv4);
      const before = portOfVictim();
      sendFrames(attacker, HOSTILE[0]?.hex ?? "", COUNT);
      return before !== "" && portOfVictim() !== before;
    };
    await eventually(takeAway, { withinMs: 20_000 });
  });
});
