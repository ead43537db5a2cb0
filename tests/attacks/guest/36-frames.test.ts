// SPDX-License-Identifier: Apache-2.0
// Frames from a guest with the bridge's own MAC.
import { run } from "@patchbay/support";
import { afterEach, expect, test } from "vitest";
import { addGuest, addHost, Namespaces, ping, PREFIX } from "../../contract/podnet/links.ts";

const namespaces = new Namespaces();
afterEach(() => {
  namespaces.close();
});

/** Sends `count` broadcasts from the guest's NIC with that source MAC. */
function sendAs(guest: string, mac: string, count: number): void {
  const sender = mac.replaceAll(":", "");
  const frame = `ffffffffffff${sender}88b5${"00".repeat(46)}`;
  const script = `
    use strict;
    my ($frame, $index) = @ARGV;
    socket(my $socket, 17, 3, 0x300) or die "socket: $!";
    my $to = pack("S n i S C C a8", 17, 0x88b5, $index, 0, 0, 6, "");
    for (1 .. ${String(count)}) { send($socket, pack("H*", $frame), 0, $to) or die "send: $!"; }`;
  const index = run("ip", "netns", "exec", guest, "cat", "/sys/class/net/eth0/ifindex").trim();
  run("ip", "netns", "exec", guest, "perl", "-e", script, frame, index);
}

test("attack 36: frames with the bridge's MAC affect no other guest", async () => {
  const host = addHost(namespaces);
  const attacker = await addGuest({ namespaces, host }, 1, "veth");
  const other = await addGuest({ namespaces, host }, 2, "veth");
  const pod = `${PREFIX}-pod1`;
  const show = (): string => run("bridge", "-n", pod, "fdb", "show", "br", "k6t-1");
  const bridgeMac = run("ip", "netns", "exec", pod, "cat", "/sys/class/net/k6t-1/address").trim();
  expect(ping(other, "10.9.0.1")).toContain(" 0% packet loss");
  const before = show();
  const received = (): number =>
    Number(run("ip", "netns", "exec", pod, "cat", "/sys/class/net/tap1/statistics/rx_packets"));
  const receivedBefore = received();
  sendAs(attacker, bridgeMac, 200);
  expect(received() - receivedBefore).toBeGreaterThanOrEqual(200);
  expect(show()).toBe(before);
  expect(ping(other, "10.9.0.1")).toContain(" 0% packet loss");
});
