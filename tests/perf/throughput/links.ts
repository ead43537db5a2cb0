// SPDX-License-Identifier: Apache-2.0
// Frames per second of processor time between a tap in a pod and the peer of the pod's NIC, through Patchbay's wiring and
// through a manual tap and bridge. A program writes and reads frames like QEMU.
import { execFileSync } from "node:child_process";
import { closeSync, fstatSync, openSync } from "node:fs";
import { buildAnnouncementFilter } from "@patchbay/core/guest";
import type { NetnsHandle } from "@patchbay/core/interfaces";
import type { BridgeWiring } from "@patchbay/core/nics";
import { createFrameWatch, createNetlink, createProcessRunner } from "@patchbay/os";
import { createPodNetwork } from "@patchbay/podnet";
import { printTable } from "../report.ts";

const NETNS = `pbt-flow-${String(process.pid)}`;
const PATH = `/run/netns/${NETNS}`;
const GUEST_MAC = "02:00:00:00:f1:01";
const FAR_MAC = "02:00:00:00:f1:02";
/** Replaces the guest's MAC at the pod NIC, because a bridge does not forward frames to its ports' MACs. */
const POD_MAC = "02:00:00:00:f1:03";
const TAP = "tap1";
const MTU = 1500;
const FRAMES = 1_000_000;
const GUEST_IP = "10.9.0.5";
/** A maximum-size IPv4 frame from the guest to a neighbor, UDP to port 9. Source: RFC 791, RFC 768, RFC 863 */
const HEADERS = "450005dc00000000401160f5" + "0a090005" + "0a090006" + "4e200009" + "05c80000";

/** Opens the tap with IFF_TAP, IFF_NO_PI and IFF_VNET_HDR (linux/if_tun.h), and builds a maximum-size frame. Arguments: MACs. */
const OPEN = `open(T, "+<", "/dev/net/tun") or die $!;
  my $request = pack("Z16 S x22", "${TAP}", 0x5002); ioctl(T, 0x400454ca, $request) or die $!;
  my $frame = pack("H12 H12 H4 H*", shift, shift, "0800", "${HEADERS}") . "x" x ${String(MTU - HEADERS.length / 2)};
  my $head = "\\0" x 10; my ($u, $s) = times;`;
const REPORT = `my ($v, $t) = times; printf "%.3f", $v + $t - $u - $s;`;

/**
 * Writes frames with a virtio header of 10 bytes to the tap. The kernel processes each frame within the write: prints their total
 * processor time in seconds, which is independent of the machine's load.
 */
const WRITE = `${OPEN} for (1 .. ${String(FRAMES)}) { syswrite(T, $head . $frame) or die $!; } ${REPORT}`;

/** Sends frames from the link with this index, and reads each from the tap. Source: packet(7); AF_PACKET, SOCK_RAW, O_NONBLOCK */
const READ = `${OPEN} fcntl(T, 4, 0x802) or die $!; socket(S, 17, 3, 0) or die $!;
  my $at = pack("S S i x12", 17, 0, shift);
  for (1 .. ${String(FRAMES)}) { send(S, $frame, 0, $at) or die $!; sysread(T, my $copy, 2048); } ${REPORT}`;

function run(...argv: readonly [string, ...string[]]): string {
  const [program, ...args] = argv;
  return execFileSync(program, args, { encoding: "utf8", timeout: 60_000 });
}

function inPod(...argv: readonly string[]): string {
  return run("nsenter", `--net=${PATH}`, ...argv);
}

/** A pod whose NIC `pod1` has its peer `far` in the same namespace, where the frames are dropped. */
function makePod(): void {
  run("ip", "netns", "add", NETNS);
  inPod("ip", ..."link add pod1 type veth peer name far".split(" "), "address", FAR_MAC);
  inPod("ip", "link", "set", "pod1", "address", GUEST_MAC, "up");
  inPod("ip", "link", "set", "far", "up");
}

function removePod(): void {
  run("ip", "netns", "del", NETNS);
}

/** The rules' settings: what the guest may send, and address resolution in the pod. */
type Rules = Pick<BridgeWiring, "guard" | "replies">;
const GUARD: Rules = { guard: { macs: [GUEST_MAC], allowsServers: false, addresses: [GUEST_IP] } };
const ANSWERS: Rules = { replies: { addresses: ["169.254.75.10/32"] } };

/** Calls `use` with the pod's network namespace. */
async function withPod(use: (netns: NetnsHandle) => Promise<void> | void): Promise<void> {
  const fd = openSync(PATH, "r");
  try {
    await use({ fd, inode: String(fstatSync(fd).ino) });
  } finally {
    closeSync(fd);
  }
}

function wireByPatchbay(rules: Rules): Promise<void> {
  const network = createPodNetwork({ runner: createProcessRunner(), netlink: createNetlink() });
  const wiring: BridgeWiring = {
    kind: "bridge",
    podInterfaceName: "pod1",
    bridgeName: "k6t-1",
    tapName: TAP,
    mac: GUEST_MAC,
    mtu: MTU,
    owner: 107,
    queues: 1,
    ...rules,
  };
  return withPod((netns) => network.wireTap(netns, wiring));
}

/** Watches the tap for announced addresses, as virt-handler does. Eight IPv6 addresses have the longest filter. */
async function learnAddresses(signal: AbortSignal): Promise<void> {
  const known = Array.from({ length: 8 }, (_none, index) => `fd00::${String(index)}`);
  const filter = buildAnnouncementFilter(GUEST_MAC, known);
  await wireByPatchbay({});
  await withPod((netns) => {
    createFrameWatch().watch({ netns, name: TAP, filter }, () => undefined, signal);
  });
}

function wireByHand(): void {
  inPod("ip", "link", "set", "pod1", "address", POD_MAC);
  inPod("ip", "link", "add", "by-hand", "type", "bridge");
  inPod("ip", "tuntap", "add", TAP, "mode", "tap", "vnet_hdr");
  for (const link of [TAP, "pod1"]) inPod("ip", "link", "set", link, "master", "by-hand", "up");
  inPod("ip", "link", "set", "by-hand", "up");
}

/** Packets that the link received, or sent. */
function countPackets(link: string, direction: "rx" | "tx"): number {
  const [found] = JSON.parse(inPod("ip", "-j", "-s", "link", "show", link)) as readonly {
    readonly stats64: Readonly<Record<"rx" | "tx", { readonly packets: number }>>;
  }[];
  return found?.stats64[direction].packets ?? 0;
}

function findIndex(link: string): string {
  const [found] = JSON.parse(inPod("ip", "-j", "link", "show", link)) as readonly {
    readonly ifindex: number;
  }[];
  return String(found?.ifindex ?? 0);
}

type Direction = "from the guest" | "to the guest";
type Wire = (signal: AbortSignal) => Promise<void> | void;

/** Sends frames in this direction. Returns their processor time in seconds. */
function pump(direction: Direction): number {
  const [guest, far] = [GUEST_MAC, FAR_MAC].map((mac) => mac.replaceAll(":", ""));
  const argv =
    direction === "from the guest"
      ? ["-e", WRITE, far, guest]
      : ["-e", READ, guest, far, findIndex("far")];
  return Number(inPod("perl", ...argv.map(String)));
}

/** Returns frames per second of processor time. The kernel drops frames without backpressure, so only frames that arrive count. */
async function flow(wire: Wire, direction: Direction): Promise<number> {
  const stop = new AbortController();
  const count = (): number =>
    direction === "from the guest" ? countPackets("far", "rx") : countPackets(TAP, "tx");
  makePod();
  try {
    await wire(stop.signal);
    const before = count();
    const seconds = pump(direction);
    const arrived = count() - before;
    if (arrived < FRAMES / 2) throw new Error(`only ${String(arrived)} frames have arrived`);
    return arrived / seconds;
  } finally {
    stop.abort();
    removePod();
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[values.length >> 1] ?? NaN;
}

/** Wirings by table label; the first is the reference. */
const WAYS: readonly (readonly [string, Wire])[] = [
  ["a tap and a bridge made by hand", wireByHand],
  ["wired by Patchbay", () => wireByPatchbay({})],
  ["the same, its addresses learned", learnAddresses],
  ["the same, its addresses answered", () => wireByPatchbay(ANSWERS)],
  ["the same, with port security", () => wireByPatchbay(GUARD)],
  ["the same, with both", () => wireByPatchbay({ ...ANSWERS, ...GUARD })],
];

async function measureDirection(direction: Direction, rounds: number): Promise<void> {
  const rows = WAYS.map(([label, wire]) => ({ label, wire, values: new Array<number>() }));
  // Alternates all wirings under equal load.
  for (let round = 0; round < rounds; round += 1) {
    for (const { wire, values } of rows) values.push(await flow(wire, direction));
  }
  const title = `frames of ${String(MTU)} bytes ${direction} in a second of processor time`;
  printTable(`${title}, ${String(rounds)} rounds`, rows);
  const [byHand = NaN, ...others] = rows.map(({ values }) => median(values));
  const ratios = others.map((ours) => `${((100 * ours) / byHand).toFixed(1)} %`);
  process.stdout.write(`ratios of medians to the one by hand: ${ratios.join(", ")}\n`);
}

/** Prints both directions, with ratios to the manual wiring. */
export async function measureLinks(rounds: number): Promise<void> {
  await measureDirection("from the guest", rounds);
  await measureDirection("to the guest", rounds);
}
