// SPDX-License-Identifier: Apache-2.0
// Frames per second of processor time from a tap in a pod to the peer of the pod's NIC, through Patchbay's wiring and
// through a manual tap and bridge. A program writes frames like QEMU, the kernel counts.
import { execFileSync } from "node:child_process";
import { closeSync, fstatSync, openSync } from "node:fs";
import type { BridgeWiring } from "@patchbay/core/nics";
import { createNetlink, createProcessRunner } from "@patchbay/os";
import { createPodNetwork } from "@patchbay/podnet";
import { printTable } from "../report.ts";

const NETNS = `pbt-flow-${String(process.pid)}`;
const PATH = `/run/netns/${NETNS}`;
const GUEST_MAC = "02:00:00:00:f1:01";
const FAR_MAC = "02:00:00:00:f1:02";
const TAP = "tap1";
const MTU = 1500;
const FRAMES = 1_000_000;
const GUEST_IP = "10.9.0.5";
/** A maximum-size IPv4 frame from the guest to a neighbor, UDP to port 9. Source: RFC 791, RFC 768, RFC 863 */
const HEADERS = "450005dc00000000401160f5" + "0a090005" + "0a090006" + "4e200009" + "05c80000";

/**
 * Opens the tap with IFF_TAP, IFF_NO_PI and IFF_VNET_HDR (linux/if_tun.h) and writes maximum-size frames: a 10-byte
 * virtio header, MACs, and the payload. The kernel processes each frame within the write: prints their total processor
 * time in seconds, which is independent of the machine's load.
 */
const PUMP = `open(T, "+<", "/dev/net/tun") or die $!;
  my $request = pack("Z16 S x22", "${TAP}", 0x5002); ioctl(T, 0x400454ca, $request) or die $!;
  my $frame = "\\0" x 10 . pack("H12 H12 H4 H*", @ARGV, "0800", "${HEADERS}")
    . "x" x ${String(MTU - HEADERS.length / 2)};
  my ($u, $s) = times; for (1 .. ${String(FRAMES)}) { syswrite(T, $frame) or die $!; }
  my ($v, $t) = times; printf "%.3f", $v + $t - $u - $s;`;

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

async function wireByPatchbay(rules: Rules): Promise<void> {
  const fd = openSync(PATH, "r");
  try {
    const netns = { fd, inode: String(fstatSync(fd).ino) };
    await createPodNetwork({ runner: createProcessRunner(), netlink: createNetlink() }).wireTap(
      netns,
      {
        kind: "bridge",
        podInterfaceName: "pod1",
        bridgeName: "k6t-1",
        tapName: TAP,
        mac: GUEST_MAC,
        mtu: MTU,
        owner: 107,
        queues: 1,
        ...rules,
      },
    );
  } finally {
    closeSync(fd);
  }
}

function wireByHand(): void {
  inPod("ip", "link", "add", "by-hand", "type", "bridge");
  inPod("ip", "tuntap", "add", TAP, "mode", "tap", "vnet_hdr");
  for (const link of [TAP, "pod1"]) inPod("ip", "link", "set", link, "master", "by-hand", "up");
  inPod("ip", "link", "set", "by-hand", "up");
}

function received(): number {
  const links = JSON.parse(inPod("ip", "-j", "-s", "link", "show", "far")) as readonly {
    readonly stats64: { readonly rx: { readonly packets: number } };
  }[];
  return links[0]?.stats64.rx.packets ?? 0;
}

/** Frames received per second of processor time, because the kernel drops frames without backpressure. */
async function flow(wire: () => Promise<void> | void): Promise<number> {
  makePod();
  try {
    await wire();
    const before = received();
    const macs = [FAR_MAC, GUEST_MAC].map((mac) => mac.replaceAll(":", ""));
    const seconds = Number(inPod("perl", "-e", PUMP, ...macs));
    const arrived = received() - before;
    if (arrived < FRAMES / 2) throw new Error(`only ${String(arrived)} frames have arrived`);
    return arrived / seconds;
  } finally {
    removePod();
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[values.length >> 1] ?? NaN;
}

/** Wirings by table label; the first is the reference. */
const WAYS: readonly (readonly [string, () => Promise<void> | void])[] = [
  ["a tap and a bridge made by hand", wireByHand],
  ["wired by Patchbay", () => wireByPatchbay({})],
  ["the same, its addresses answered", () => wireByPatchbay(ANSWERS)],
  ["the same, with port security", () => wireByPatchbay(GUARD)],
  ["the same, with both", () => wireByPatchbay({ ...ANSWERS, ...GUARD })],
];

/** Prints all, with ratios to the manual wiring. */
export async function measureLinks(rounds: number): Promise<void> {
  const rows = WAYS.map(([label, wire]) => ({ label, wire, values: new Array<number>() }));
  // Alternates all wirings under equal load.
  for (let round = 0; round < rounds; round += 1) {
    for (const { wire, values } of rows) values.push(await flow(wire));
  }
  const title = `frames of ${String(MTU)} bytes in a second of processor time`;
  printTable(`${title}, ${String(rounds)} rounds`, rows);
  const [byHand = NaN, ...others] = rows.map(({ values }) => median(values));
  const ratios = others.map((ours) => `${((100 * ours) / byHand).toFixed(1)} %`);
  process.stdout.write(`ratios of medians to the one by hand: ${ratios.join(", ")}\n`);
}
