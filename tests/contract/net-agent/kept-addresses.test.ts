// SPDX-License-Identifier: Apache-2.0
// A NIC gets its previous address from real IPAM plugins despite other assignments in between.
import { EVENTS } from "@patchbay/api";
import type { NetworkConfigList } from "@patchbay/core/interfaces";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AgentMachine } from "./machine.ts";

const NAMESPACE = "default";
const TIMEOUT = { withinMs: 10_000 };

let machine: AgentMachine;
let pods = 0;

/** A pod with one NIC on the network and these previous addresses. */
async function attach(
  network: string,
  ips: readonly string[] = [],
): Promise<{ readonly name: string; readonly ips: readonly string[] }> {
  pods += 1;
  const name = `pod-${String(pods)}`;
  const element = { name: network, interface: "net1", "io.patchbay.kept-ips": ips };
  await machine.runPod({ namespace: NAMESPACE, name, networks: JSON.stringify([element]) });
  const [status] = await eventually(async () => {
    const all = await machine.networkStatus(NAMESPACE, name);
    return all.length > 0 ? all : undefined;
  }, TIMEOUT);
  return { name, ips: status?.ips ?? [] };
}

async function detach(name: string): Promise<void> {
  await machine.ask(NAMESPACE, name, "");
  await eventually(
    async () => (await machine.networkStatus(NAMESPACE, name)).length === 0,
    TIMEOUT,
  );
}

/** Waits for the pod's event about an address that changed. */
async function reported(name: string): Promise<string> {
  return eventually(async () => {
    const { items } = await machine.admin.store.list(EVENTS, { namespace: NAMESPACE });
    return items.find(
      ({ involvedObject, reason }) => involvedObject.name === name && reason === "AddressNotKept",
    )?.message;
  }, TIMEOUT);
}

beforeAll(async () => {
  machine = await AgentMachine.start();
  const { ipam, ...bridge } = machine.node.bridgePlugin();
  const dataDir = machine.node.leaseDir;
  const both = [[{ subnet: "10.55.0.0/24" }], [{ subnet: "fd55::/64" }]];
  const lists: Readonly<Record<string, NetworkConfigList["plugins"][number]>> = {
    plain: { ...bridge, ipam },
    declared: { ...bridge, ipam, capabilities: { ips: true } },
    both: { ...bridge, ipam: { type: "host-local", dataDir, ranges: both } },
    fixed: { ...bridge, ipam: { type: "static", addresses: [{ address: "10.55.1.9/24" }] } },
  };
  for (const [name, plugin] of Object.entries(lists)) {
    await machine.putNad(NAMESPACE, name, [plugin]);
  }
});

afterAll(async () => {
  await machine.close();
});

describe.each(["plain", "declared", "both"])("host-local, %s", (network) => {
  test("reassigns a free address despite other assignments in between", async () => {
    const first = await attach(network);
    const other = await attach(network);
    await detach(first.name);
    expect((await attach(network)).ips).not.toEqual(first.ips);
    const again = await attach(network, first.ips);
    expect(again.ips).toEqual(first.ips);
    expect(other.ips).not.toEqual(first.ips);
  });

  test("assigns another address when it is in use, and reports why", async () => {
    const owner = await attach(network);
    const late = await attach(network, owner.ips);
    expect(late.ips).toHaveLength(owner.ips.length);
    expect(late.ips.some((ip) => owner.ips.includes(ip))).toBe(false);
    expect(await machine.errors(NAMESPACE, late.name)).toEqual({});
    const [ip = ""] = owner.ips;
    expect(await reported(late.name)).toMatch(`net1 of default/${network} did not get ${ip}`);
    expect(await reported(late.name)).toMatch(/failed to allocate all requested IPs|not available/);
  });
});

test.each([
  { name: "that is the network's gateway", ips: ["10.55.0.1"] },
  { name: "outside the network", ips: ["192.0.2.7"] },
  { name: "of a family that the network does not have", ips: ["fd00::9"] },
])("ignores the preference for an address $name", async ({ ips }) => {
  const { name, ips: input } = await attach("plain", ips);
  expect(input).toHaveLength(1);
  expect(input).not.toEqual(ips);
  expect(await reported(name)).toContain(ips[0]);
  expect(machine.node.leases("plain")).not.toContain(ips[0]);
});

test("does not pass preferences to IPAM that assigns any requested address", async () => {
  const { name, ips } = await attach("fixed", ["10.55.0.1"]);
  expect(ips).toEqual(["10.55.1.9"]);
  expect(await reported(name)).toContain("the network does not support requested addresses");
});
