// SPDX-License-Identifier: Apache-2.0
// The kernel's ARP, neighbor discovery and DHCP of two guests on one network show the addresses of the guest that is listened to.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { promisify } from "node:util";
import { aVmi, run } from "@patchbay/support";
import { createClock, createFrameWatch, createNetlink } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import { createLearnedAddresses, type LearnedAddresses } from "@patchbay/virt-handler/testing";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { askIpv4 } from "./dhcp-guest.ts";
import { addGuest, addHost, guestWiring, Namespaces, ping } from "./links.ts";

const VMI = aVmi();
const { podInterfaceName, tapName, mac } = guestWiring(1);
const NIC = { name: "one", podInterfaceName, tapName, tapIndex: 1, mac };
const WITHIN = { timeout: 60_000 };
/** Source: dnsmasq(8) */
const DNSMASQ = [
  "--keep-in-foreground",
  "--log-facility=-",
  "--conf-file=/dev/null",
  "--pid-file=",
  "--user=root",
  "--port=0",
  "--interface=br0",
  "--except-interface=lo",
  "--bind-interfaces",
  "--leasefile-ro",
  "--no-ping",
  "--dhcp-range=10.9.0.50,10.9.0.50,1h",
] as const;

const FLOOD_SECONDS = 4;
/** Announces addresses from 10.9.1.0 on as fast as possible, and prints the number of frames. Arguments: link index, MAC, addresses. */
const FLOOD = `my ($index, $mac, $count) = @ARGV; socket(S, 17, 3, 0) or die $!;
  my $at = pack("S S i x12", 17, 0, $index);
  my $head = pack("H*", "ffffffffffff" . $mac . "08060001080006040001" . $mac);
  my ($sent, $end) = (0, time + ${String(FLOOD_SECONDS)});
  while (time < $end) { send(S, $head . pack("N x6 N", 0x0a090100 + $sent++ % $count, 1), 0, $at); } print $sent;`;

const execute = promisify(execFile);

let namespaces: Namespaces;
let guests: readonly [string, string];
let host: string;
let learned: LearnedAddresses;
let changes: number;
beforeEach(async () => {
  namespaces = new Namespaces();
  host = addHost(namespaces);
  guests = [
    await addGuest({ namespaces, host }, 1, "veth"),
    await addGuest({ namespaces, host }, 2, "veth"),
  ];
  const log = createSilentLogger();
  learned = createLearnedAddresses({ frameWatch: createFrameWatch(), clock: createClock(), log });
  changes = 0;
  const onChange = (): void => {
    changes += 1;
  };
  const pod = guests[0].replace("guest", "pod");
  const { signal } = new AbortController();
  learned.listen(VMI, [NIC], { netns: namespaces.open(pod), signal, onChange });
});
afterEach(() => {
  learned.forgetAll();
  namespaces.close();
});

function listAddresses(): readonly string[] {
  return learned.list(VMI).get("one")?.addresses ?? [];
}

async function expectAddresses(...wanted: readonly string[]): Promise<void> {
  await vi.waitFor(() => {
    expect([...listAddresses()].sort()).toEqual(wanted);
  }, WITHIN);
}

/** Announces an address by gratuitous ARP. */
function announce(guest: string, address: string): void {
  const text = ["arping", "-U", "-c", "1", "-w", "1", "-I", "eth0", address];
  run("ip", "netns", "exec", guest, "sh", "-c", `busybox ${text.join(" ")} || true`);
}

test("ARP and neighbor discovery show the addresses of the guest, and not those of others", async () => {
  ping(guests[0], "10.9.0.2");
  ping(guests[0], "fd09::2");
  await expectAddresses("10.9.0.1", "fd09::1");
  ping(guests[1], "10.9.0.1");
  expect(listAddresses()).toHaveLength(2);
  const before = changes;
  announce(guests[0], "10.9.0.1");
  run("ip", "-n", guests[0], "addr", "add", "10.9.0.7/24", "dev", "eth0");
  announce(guests[0], "10.9.0.7");
  await expectAddresses("10.9.0.1", "10.9.0.7", "fd09::1");
  expect(changes).toBe(before + 1);
});

test("an address in a VLAN of the guest is not shown", async () => {
  const [sender, rest] = [mac.replaceAll(":", ""), "0000000000000a090002"];
  const buildArp = (tag: string, address: string): Buffer =>
    Buffer.from(`ffffffffffff${sender}${tag}08060001080006040001${sender}${address}${rest}`, "hex");
  const frames = [buildArp("81000005", "0a050001"), buildArp("", "0a090008")];
  await createNetlink().sendFrames(namespaces.open(guests[0]), "eth0", frames);
  await expectAddresses("10.9.0.8");
});

test("an address that another host announces is removed", async () => {
  ping(guests[0], "10.9.0.2");
  await expectAddresses("10.9.0.1");
  run("ip", "-n", guests[1], "addr", "add", "10.9.0.1/24", "dev", "eth0");
  announce(guests[1], "10.9.0.1");
  await expectAddresses();
});

test("a lease of the network's DHCP server is shown before the guest uses it", async () => {
  run("ip", "-n", host, "addr", "add", "10.9.0.254/24", "dev", "br0");
  const server = spawn("ip", ["netns", "exec", host, "dnsmasq", ...DNSMASQ], { stdio: "ignore" });
  try {
    await vi.waitFor(() => {
      expect(askIpv4(guests[0])?.["ip"]).toBe("10.9.0.50");
    }, WITHIN);
    await vi.waitFor(() => {
      expect(listAddresses()).toContain("10.9.0.50");
    }, WITHIN);
  } finally {
    const ended = once(server, "exit");
    server.kill();
    await ended;
  }
});

/** Floods the tap with ARP messages about `count` addresses. Returns the number of sent frames. */
async function flood(number: 1 | 2, count: number): Promise<number> {
  const guest = guests[number - 1] ?? "";
  const sender = guestWiring(number).mac.replaceAll(":", "");
  const [link] = JSON.parse(run("ip", "-n", guest, "-j", "link", "show", "eth0")) as readonly {
    readonly ifindex: number;
  }[];
  const argv = ["perl", "-e", FLOOD, String(link?.ifindex), sender, String(count)];
  const { stdout } = await execute("ip", ["netns", "exec", guest, ...argv]);
  return Number(stdout);
}

test("a flood of new addresses costs little processor time and memory, and shows eight addresses", async () => {
  const before = process.cpuUsage();
  const sent = await flood(1, 1_000_000);
  const { user, system } = process.cpuUsage(before);
  expect(sent).toBeGreaterThan(20_000);
  expect((user + system) / 1e6).toBeLessThan(FLOOD_SECONDS / 10);
  expect(listAddresses()).toHaveLength(8);
  expect(changes).toBeLessThanOrEqual(8);
  const pod = guests[0].replace("guest", "pod");
  const sockets = run("ip", "netns", "exec", pod, "ss", "--packet", "--memory", "--no-header");
  expect(sockets).toContain("rb65536");
});

test("two guests that announce one address in turn cause few changes", async () => {
  await Promise.all([flood(1, 1), flood(2, 1)]);
  expect(changes).toBeGreaterThan(1);
  // The throttle allows ten short pauses, and then one read a second.
  expect(changes).toBeLessThan(13 + FLOOD_SECONDS);
});
