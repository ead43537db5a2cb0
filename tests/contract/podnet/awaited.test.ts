// SPDX-License-Identifier: Apache-2.0
// Where a switch learns a guest that migrates between two pods: in one place at a time, and never in a pod that still
// awaits it.
import type { NetnsHandle } from "@patchbay/core/interfaces";
import { run } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  addGuest,
  addHost,
  addNic,
  guestWiring,
  makeNetwork,
  Namespaces,
  ping,
  PREFIX,
} from "./links.ts";

const WIRING = guestWiring(1);
const AWAITED = { ...WIRING, incomingPodUid: "pod-2" } as const;

let namespaces: Namespaces;
let host: string;
/** The guest at its source, at its target, and another guest. */
let here: string;
let there: string;
let other: string;
let target: NetnsHandle;

beforeEach(async () => {
  namespaces = new Namespaces();
  host = addHost(namespaces);
  here = await addGuest({ namespaces, host }, 1, "veth");
  other = await addGuest({ namespaces, host }, 2, "veth");
  const pod = namespaces.add("pod9");
  there = namespaces.add("guest9");
  target = namespaces.open(pod);
});

afterEach(() => {
  namespaces.close();
});

/** A guest that is still off, whose pod NIC has the MAC that CNI assigned. */
async function awaitGuest(mac: string): Promise<void> {
  const pod = `${PREFIX}-pod9`;
  addNic({ host, pod }, { name: "pod1", kind: "veth", mac });
  const peer = ["peer", "name", "eth0", "address", WIRING.mac, "mtu", "1400", "netns", there];
  run("ip", "-n", pod, "link", "add", WIRING.tapName, "type", "veth", ...peer);
  run("ip", "-n", there, "addr", "add", "10.9.0.1/24", "dev", "eth0");
  run("ip", "-n", there, "link", "set", "eth0", "addrgenmode", "none", "up");
  await makeNetwork().wireTap(target, AWAITED);
}

/** The ports where the host's bridge has learned the guest. */
function heardAt(): readonly string[] {
  const entries = run("bridge", "-n", host, "fdb", "show", "br", "br0").split("\n");
  return entries
    .filter((line) => line.startsWith(WIRING.mac) && !line.includes("permanent"))
    .map((line) => line.split(" ")[2] ?? "");
}

/** Frames received by the guest's own NIC. */
function framesAt(guest: string): number {
  const path = "/sys/class/net/eth0/statistics/rx_packets";
  return Number(run("ip", "netns", "exec", guest, "cat", path));
}

test("a pod awaiting its guest sends and queues nothing, and receives frames once the guest is here", async () => {
  ping(here, "10.9.0.2");
  expect(heardAt()).toEqual(["pod1pod1"]);
  await awaitGuest("02:00:00:00:5e:99");
  const before = framesAt(there);
  // A request for an unused address is broadcast.
  expect(() => ping(other, "10.9.0.77")).toThrow("Command failed");
  ping(here, "10.9.0.2");
  expect(framesAt(there)).toBe(before);
  expect(heardAt()).toEqual(["pod1pod1"]);
  run("ip", "-n", here, "link", "set", "eth0", "down");
  await makeNetwork().wireTap(target, WIRING);
  expect((await makeNetwork().observe(target)).isWired(WIRING)).toBe(true);
  expect(ping(there, "10.9.0.2")).toContain(" 0% packet loss");
  expect(heardAt()).toEqual(["pod9pod1"]);
});

test("a NIC with the guest's MAC releases the MAC before it joins the bridge", async () => {
  ping(here, "10.9.0.2");
  await awaitGuest(WIRING.mac);
  const nic = run("ip", "-n", `${PREFIX}-pod9`, "-br", "link", "show", "pod1");
  expect(nic).not.toContain(WIRING.mac);
  expect(heardAt()).toEqual(["pod1pod1"]);
  expect(ping(other, "10.9.0.1")).toContain(" 0% packet loss");
});

/** The MAC that the other guest has resolved for these addresses. */
function believedMacs(): readonly (string | undefined)[] {
  return ["10.9.0.1", "fd09::1"].map(
    (address) =>
      /lladdr (\S+)/.exec(run("ip", "-n", other, "neigh", "show", address, "dev", "eth0"))?.[1],
  );
}

test("neighbors that learned the guest elsewhere, or another MAC for it, learn the pod again", async () => {
  const network = makeNetwork();
  const wrong = "02:00:00:00:5e:99";
  await awaitGuest(wrong);
  ping(other, "10.9.0.1");
  ping(other, "-6", "fd09::1");
  const nic = { podInterfaceName: "pod1", mac: WIRING.mac, addresses: ["10.9.0.1/24", "fd09::1"] };
  // Like a plugin that creates a NIC with these addresses. A pod whose guest is elsewhere still sends: reports of left
  // groups (twice, up to a second apart; source: RFC 3810, 6.1), and replies.
  const believedElsewhere = async () => {
    await network.announce(target, { ...nic, addresses: [] });
    await network.announce(target, { ...nic, mac: wrong });
    return [...heardAt(), ...believedMacs()];
  };
  await expect.poll(believedElsewhere).toEqual(["pod9pod1", wrong, wrong]);
  await network.announce(namespaces.open(`${PREFIX}-pod1`), nic);
  await expect.poll(believedMacs).toEqual([WIRING.mac, WIRING.mac]);
  expect(heardAt()).toEqual(["pod1pod1"]);
  expect(ping(other, "10.9.0.1")).toContain(" 0% packet loss");
});

test("two macvlans of one parent: the source pod releases its MAC for the target", async () => {
  const network = makeNetwork();
  const mac = "02:00:00:00:5e:07";
  const wiring = { ...guestWiring(1), mac };
  const awaited = { ...wiring, incomingPodUid: "pod-2" } as const;
  const source = namespaces.add("pod7");
  addNic({ host, pod: source }, { name: "pod1", kind: "macvlan", mac });
  addNic(
    { host, pod: `${PREFIX}-pod9` },
    { name: "pod1", kind: "macvlan", mac: "02:00:00:00:5e:97" },
  );
  const remaining = namespaces.open(source);
  await network.wireTap(remaining, wiring);
  await network.wireTap(target, awaited);
  await expect(network.wireTap(target, wiring)).rejects.toMatchObject({ code: "PODNET_FAILED" });
  await network.wireTap(remaining, awaited);
  await network.wireTap(target, wiring);
  const views = await Promise.all([remaining, target].map((netns) => network.observe(netns)));
  expect(views.map(({ isWired }) => isWired(wiring))).toEqual([false, true]);
});

test("two macvlans of one parent: two pods without their guest have different MACs", async () => {
  const network = makeNetwork();
  const mac = "02:00:00:00:5e:08";
  const wiring = { ...guestWiring(1), mac };
  const remaining = namespaces.add("pod8");
  addNic({ host, pod: remaining }, { name: "pod1", kind: "macvlan", mac });
  await network.wireTap(namespaces.open(remaining), { ...wiring, incomingPodUid: "pod-1" });
  addNic({ host, pod: `${PREFIX}-pod9` }, { name: "pod1", kind: "macvlan", mac });
  await network.wireTap(target, { ...wiring, incomingPodUid: "pod-2" });
  expect((await network.observe(target)).isWired({ ...wiring, incomingPodUid: "pod-2" })).toBe(
    true,
  );
});
