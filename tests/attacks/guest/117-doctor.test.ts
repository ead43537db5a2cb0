// SPDX-License-Identifier: Apache-2.0
// A guest that disturbs the doctor's probes of its NIC: foreign replies from many MACs, without end.
import { spawn, type ChildProcess } from "node:child_process";
import { run } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ADDRESS, DoctorScene, GATEWAY } from "../../contract/podnet/doctor/doctor-scene.ts";
import { MAC } from "../../contract/podnet/links.ts";
import { arp, frame } from "./frames.ts";

const EVERYBODY = "ff:ff:ff:ff:ff:ff";
const OTHER = "02:00:00:00:5e:66";
/** Replies that one capture reads from a link, and the number of captures. */
const [HEARD, HEARINGS] = [64, 18];

let scene: DoctorScene;
let flood: ChildProcess | undefined;
beforeEach(async () => {
  scene = new DoctorScene(117);
  await scene.wire();
});
afterEach(async () => {
  flood?.kill("SIGKILL");
  flood = undefined;
  await scene.close();
});

/** Sends a frame continuously, optionally each from another MAC. */
function floodFrom(guest: string, hex: string, variesMac: boolean): void {
  const script = `
    use strict;
    my ($frame, $index) = @ARGV;
    socket(my $socket, 17, 3, 0x300) or die "socket: $!";
    my $to = pack("S n i S C C a8", 17, 0, $index, 0, 0, 6, "");
    my $bytes = pack("H*", $frame);
    for (my $n = 0; ; $n++) {
      substr($bytes, 8, 4) = pack("N", $n) if ${variesMac ? "1" : "0"};
      send($socket, $bytes, 0, $to);
    }`;
  const index = run("ip", "netns", "exec", guest, "cat", "/sys/class/net/eth0/ifindex").trim();
  const text = ["netns", "exec", guest, "perl", "-e", script, hex, index];
  flood = spawn("ip", text, { stdio: "ignore" });
}

/** An unsolicited ARP reply with the doctor's form. */
function answerFor(ip: string): string {
  return frame(EVERYBODY, MAC, arp({ op: 2, mac: MAC, ip, asks: "0.0.0.0" }));
}

test("attack 117: processes a limited number of replies from a guest that floods from many MACs", async () => {
  floodFrom(scene.guest, answerFor(ADDRESS), true);
  const observed = await scene.doctor.examine({ ...scene.nic(), withinMs: 3000 });
  const received = observed.traces.flatMap(({ repliedFrom }) => repliedFrom);
  expect(received.length).toBeLessThan(HEARD * HEARINGS * 6);
  expect(observed.links.nodePeer?.up).toBe(true);
});

test("attack 117: a guest that answers for the gateway affects only its own result", async () => {
  run("ip", "-n", scene.lan, "addr", "del", `${GATEWAY}/24`, "dev", "lan0");
  floodFrom(scene.guest, answerFor(GATEWAY), false);
  const { hops } = await scene.examine();
  const others = hops.filter(({ hop }) => ["podNic", "nodeBridge", "uplink"].includes(hop));
  expect(others.map(({ state }) => state)).toEqual(["ok", "ok", "ok"]);
  const output = hops.find(({ hop }) => hop === "gateway");
  expect(JSON.stringify(output)).not.toContain(OTHER);
});

test("attack 117: ignores frames that answer no request", async () => {
  const [, requested] = [scene.nic(), { op: 2, mac: MAC, ip: ADDRESS, asks: "10.9.0.9" }] as const;
  floodFrom(scene.guest, frame(EVERYBODY, OTHER, arp(requested)), false);
  const { traces } = await scene.doctor.examine(scene.nic());
  expect(traces.flatMap(({ repliedFrom: by }) => by)).not.toContain(OTHER);
  expect(flood?.exitCode).toBeNull();
});
