// SPDX-License-Identifier: Apache-2.0
// Traffic between two guests over a plugged NIC: large frames, tagged ones, multicast, and IPv6 with neighbor
// discovery.
import { execFileSync } from "node:child_process";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  appendOperations,
  CHANGE_MS,
  expectGone,
  expectReady,
  guestNic,
  machine,
  ping,
  removeInterface,
} from "../machine.ts";
import { examine, hopOf } from "../examine.ts";

const NETWORK = "jumbo";
const MTU = 9000;
/** Headers of IPv4 and ICMP, bytes. Source: RFC 791, RFC 792. */
const HEADERS = 28;
const GUESTS = [
  { vm: "alpha", mac: "02:00:00:00:da:01" },
  { vm: "beta", mac: "02:00:00:00:da:02" },
];
/** The first guest's target: the solicited-node group of the second one's MAC. Source: RFC 4291 2.7.1. */
const SOLICITED_NODE = "ff02::1:ff00:da02";

/** Guest names of the NICs, in the order of the guests. */
let nics: readonly string[];

async function run(index: number, command: string): Promise<void> {
  const { code, lines } = await machine.console(GUESTS[index]?.vm ?? "").run(command);
  expect(lines.join("\n")).toBe("");
  expect(code).toBe(0);
}

/** Assigns the guests the addresses `prefix` and 1 or 2. */
async function setAddresses(links: readonly string[], prefix: string, bits: number): Promise<void> {
  for (const [index, link] of links.entries()) {
    await run(index, `address ${link} ${prefix}${String(index + 1)}/${String(bits)}`);
  }
}

/** Waits until a ping from the first guest succeeds, because a new address takes time. */
async function expectAnswer(ip: string, bytes = 56): Promise<void> {
  await eventually(async () => (await ping("alpha", ip, { count: 1 })).received === 1, {
    withinMs: CHANGE_MS,
  });
  expect(await ping("alpha", ip, { count: 5, bytes })).toEqual({ sent: 5, received: 5 });
}

beforeAll(async () => {
  const config = { cniVersion: "0.4.0", name: NETWORK, type: "bridge", bridge: "pbt-jumbo" };
  machine.apply({
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name: NETWORK, namespace: "default" },
    spec: { config: JSON.stringify({ ...config, mtu: MTU }) },
  });
  for (const { vm, mac } of GUESTS) {
    const nic = { name: NETWORK, network: NETWORK, macAddress: mac };
    const operations = appendOperations("/spec/template/spec", nic);
    machine.patch("vm", vm, operations);
  }
  for (const { vm } of GUESTS) await expectReady(vm, NETWORK);
  nics = await Promise.all(GUESTS.map(({ vm, mac }) => guestNic(vm, mac)));
  await setAddresses(nics, "10.78.0.", 24);
});

afterAll(async () => {
  for (const { vm } of GUESTS) removeInterface(vm, NETWORK);
  for (const { vm } of GUESTS) await expectGone(vm, NETWORK);
});

test("passes frames up to the network's MTU, which the guest's NIC has automatically", async () => {
  const { lines } = await machine.console("alpha").run("report");
  expect(lines.find((line) => line.includes(GUESTS[0]?.mac ?? ""))).toContain(`mtu ${String(MTU)}`);
  await expectAnswer("10.78.0.2", MTU - HEADERS);
});

test("passes tagged frames", async () => {
  for (const [index, nic] of nics.entries()) await run(index, `tag ${nic} 7`);
  await setAddresses(
    nics.map((nic) => `${nic}.7`),
    "10.78.7.",
    24,
  );
  await expectAnswer("10.78.7.2");
});

test("passes multicast to a group that only the other guest joined", async () => {
  await expectAnswer(`${SOLICITED_NODE}%${nics[0] ?? ""}`);
});

test("passes IPv6 with neighbor discovery", async () => {
  await setAddresses(nics, "fd78::", 64);
  await expectAnswer("fd78::2");
});

describe("the doctor", () => {
  const BRIDGE = "pbt-jumbo";

  test("finds no dead hop where frames pass", async () => {
    expect(await examine("alpha", NETWORK)).toMatchObject({ code: 0, dead: "" });
  });

  test.each([
    { want: "nodePeer PeerDown", fault: ["down"], cure: ["up"] },
    { want: "nodePeer PeerOutOfBridge", fault: ["nomaster"], cure: ["master", BRIDGE] },
    { want: "nodePeer MtuSmaller", fault: ["mtu", "1400"], cure: ["mtu", String(MTU)] },
  ])("names $want", async ({ want, fault, cure }) => {
    const peer = hopOf(await examine("alpha", NETWORK), "nodePeer")?.name ?? "";
    expect(peer).toMatch(/^veth/);
    const set = (text: readonly string[]): void => {
      execFileSync("ip", ["link", "set", peer, ...text]);
    };
    set(fault);
    try {
      expect(await examine("alpha", NETWORK)).toMatchObject({ code: 1, dead: want });
    } finally {
      set(cure);
    }
    expect(await examine("alpha", NETWORK)).toMatchObject({ code: 0, dead: "" });
  });
});
