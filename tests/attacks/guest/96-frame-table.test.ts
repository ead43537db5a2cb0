// SPDX-License-Identifier: Apache-2.0
// Guest frames of all kinds with their fate: restricted to its addresses, and to its MAC alone.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { SendGuard } from "@patchbay/core/nics";
import { eventually, run } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  addGuest,
  addHost,
  guestWiring,
  makeNetwork,
  Namespaces,
  PREFIX,
} from "../../contract/podnet/links.ts";
import { FRAMES, LAST, OWN } from "./frame-table.ts";
import { sendAll } from "./frames.ts";

const MAC: SendGuard = { macs: [OWN.mac], allowsServers: false };
const ADDRESSES: SendGuard = { ...MAC, addresses: [OWN.ipv4, OWN.ipv6, OWN.linkLocal] };

/** Allows large frames. */
const MTU = 9000;
/** Hex digits of the Ethernet header, unique per frame. */
const HEAD = 28;

const namespaces = new Namespaces();
let host: string;
let attacker: string;

beforeAll(async () => {
  host = addHost(namespaces);
  attacker = await addGuest({ namespaces, host }, 1, "veth");
  const links = [
    [attacker, "eth0"],
    [`${PREFIX}-pod1`, "pod1"],
    [host, "pod1pod1"],
  ] as const;
  for (const [at, link] of links) run("ip", "-n", at, "link", "set", link, "mtu", String(MTU));
});
afterAll(() => {
  namespaces.close();
});

/** Prints each frame that a link receives, in hexadecimal. */
const LISTEN = `
  use strict; $| = 1;
  socket(my $socket, 17, 3, 0x300) or die "socket: $!";
  my $index = $ARGV[0];
  bind($socket, pack("S n i S C C a8", 17, 3, $index, 0, 0, 0, "")) or die "bind: $!";
  print "ready\n";
  while (defined recv($socket, my $frame, 65536, 0)) { print unpack("H*", $frame), "\n"; }`;

/** A received VLAN tag is stored beside the frame, not in it. Source: packet(7), tp_vlan_tci */
function untagged(hex: string): string {
  return ["8100", "88a8"].includes(hex.slice(24, 28)) ? `${hex.slice(0, 24)}${hex.slice(32)}` : hex;
}

/** Whether the frame was received; br_netfilter removes the padding. */
function isObserved(hex: string, seen: ReadonlySet<string>): boolean {
  const received = untagged(hex);
  return [...seen].some((one) => one.length >= HEAD && received.startsWith(one));
}

/** The sent frames that leave the pod. */
async function passed(guard?: SendGuard): Promise<ReadonlySet<string>> {
  const wiring = { ...guestWiring(1), mtu: MTU, ...(guard === undefined ? {} : { guard }) };
  await makeNetwork().wireTap(namespaces.open(`${PREFIX}-pod1`), wiring);
  const listener = spawn(
    "ip",
    [
      "netns",
      "exec",
      host,
      "sh",
      "-c",
      `exec perl -e "$0" "$(cat /sys/class/net/pod1pod1/ifindex)"`,
      LISTEN,
    ],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  const closed = once(listener, "close");
  const seen = new Set<string>();
  createInterface(listener.stdout).on("line", (line) => seen.add(line));
  try {
    await eventually(() => seen.has("ready"), { withinMs: 10_000 });
    sendAll(attacker, [...FRAMES.map(({ hex }) => hex), LAST]);
    await eventually(() => isObserved(LAST, seen), { withinMs: 10_000 });
  } finally {
    listener.kill();
    await closed;
  }
  return seen;
}

test("the table has at least 60 distinct frames", () => {
  expect(FRAMES.length).toBeGreaterThanOrEqual(60);
  expect(new Set(FRAMES.map(({ hex }) => untagged(hex).slice(0, HEAD))).size).toBe(FRAMES.length);
});

describe.each([
  { held: "addresses", guard: ADDRESSES },
  { held: "mac", guard: MAC },
] as const)("a guest restricted to its $held", ({ held, guard }) => {
  let seen: ReadonlySet<string>;

  beforeAll(async () => {
    seen = await passed(guard);
  });

  test.each(FRAMES)("$name", ({ hex, passes }) => {
    expect(isObserved(hex, seen)).toBe(passes[held]);
  });
});

/** Pause frames always end at the next link. Source: linux net/bridge/br_input.c, br_handle_frame */
const PAUSE = /^0180c2000001/;

test("an unrestricted guest can send all frames, also LLDP, 802.1X and LACP", async () => {
  const seen = await passed();
  const lost = FRAMES.filter(({ hex }) => !PAUSE.test(hex) && !isObserved(hex, seen));
  expect(lost.map(({ name }) => name)).toEqual([]);
  // Restricted again, the guest cannot reach switches.
  const seenAgain = await passed(MAC);
  const heard = FRAMES.filter(({ hex }) => /^0180c20000/.test(hex) && isObserved(hex, seenAgain));
  expect(heard).toEqual([]);
});
