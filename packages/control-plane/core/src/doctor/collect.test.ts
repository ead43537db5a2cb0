// SPDX-License-Identifier: Apache-2.0
// The address that is probed on the network, and what counts as the VM's own.
import type { VirtualMachineInstance } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { anIface, IN_USE, MAC } from "../testing/node-scene.ts";
import { collectPathFacts, planProbes, type PathSources } from "./collect.ts";

const NETWORK = "default/blue";

interface ObservedNic {
  readonly name: string;
  readonly mac: string;
  readonly address: string;
  readonly infoSource: string;
}

/** A VMI whose NICs are all on one network. */
function vmiWith(vmName: string, ...nics: readonly ObservedNic[]): VirtualMachineInstance {
  const attachments = nics.map(({ name, mac }) => ({
    name,
    mac,
    podInterfaceName: `pod0${name}`,
    state: "Attached" as const,
    networkName: NETWORK,
  }));
  const interfaces = nics.map(({ name, mac, address, infoSource }) => ({
    name,
    mac,
    infoSource,
    ipAddresses: [address],
  }));
  const vmi = aVmi({ status: { attachments, interfaces } });
  return { ...vmi, metadata: { ...vmi.metadata, name: vmName } };
}

const OWN: ObservedNic = { name: "a", mac: MAC, address: "10.9.0.1", infoSource: "guest-agent" };
const SECOND: ObservedNic = { ...OWN, name: "b", mac: "02:00:00:00:00:0B", address: "10.9.0.2" };
const OTHER: ObservedNic = { ...OWN, mac: "02:00:00:00:00:0c", address: "10.9.0.3" };

function sources(own: VirtualMachineInstance, ...others: VirtualMachineInstance[]): PathSources {
  const iface = anIface({ attachment: "Attached", links: IN_USE });
  const attachment = iface.attachment && { ...iface.attachment, networkName: NETWORK };
  return {
    iface: { ...iface, ...(attachment && { attachment }) },
    vmis: [own, ...others],
    vmi: own,
    isPaused: false,
  };
}

describe("the guest to probe without a known gateway", () => {
  test.each([
    { name: "is a guest whose agent reports the address", nics: [OTHER], want: "10.9.0.3" },
    {
      name: "is not a guest with an address that was only assigned",
      nics: [{ ...OTHER, infoSource: "domain, multus-status" }],
      want: undefined,
    },
  ])("$name", ({ nics, want }) => {
    const all = sources(vmiWith("own", OWN), vmiWith("other", ...nics));
    const question = planProbes(all, collectPathFacts(all));
    expect(question?.neighbor).toBe(want);
  });

  test("is not another NIC of the same VM", () => {
    const all = sources(vmiWith("own", OWN, SECOND));
    expect(planProbes(all, collectPathFacts(all))?.neighbor).toBeUndefined();
  });
});

describe("the gateway to probe first", () => {
  const DEFAULT_ROUTE = { destination: "0.0.0.0/0", gateway: "10.9.0.254" };
  const IPV6_ROUTE = { destination: "::/0", gateway: "fd00::1" };
  test.each([
    {
      name: "is the one that CNI returned, without a route",
      gateways: ["10.9.0.1"],
      want: { address: "10.9.0.1", isRouted: false },
    },
    {
      name: "is the one of the default route before one without a route",
      gateways: ["10.9.0.1"],
      routes: [DEFAULT_ROUTE],
      want: { address: "10.9.0.254", isRouted: true },
    },
    {
      name: "is the one of IPv4 before the one of IPv6",
      gateways: ["fd00::1", "10.9.0.254"],
      routes: [IPV6_ROUTE, DEFAULT_ROUTE],
      want: { address: "10.9.0.254", isRouted: true },
    },
    {
      name: "is the one that a route to another network uses",
      gateways: ["10.9.0.1"],
      routes: [{ destination: "10.20.0.0/16", gateway: "10.9.0.1" }],
      want: { address: "10.9.0.1", isRouted: true },
    },
    {
      name: "is the default route's if CNI's result is unknown",
      gateways: undefined,
      routes: [IPV6_ROUTE],
      want: { address: "fd00::1", isRouted: true },
    },
    { name: "is unknown if neither names one", gateways: undefined, want: undefined },
  ])("$name", ({ gateways, routes = [], want }) => {
    const all = sources(vmiWith("own", OWN));
    const attachment = all.iface.attachment && {
      ...all.iface.attachment,
      ...(gateways && { gateways }),
    };
    const remembered = { podInterfaceName: "pod0a", index: 3, addresses: ["10.9.0.5/24"], routes };
    const iface = { ...all.iface, ...(attachment && { attachment }), remembered };
    const given = { ...all, iface };
    expect(planProbes(given, collectPathFacts(given))?.gateway).toEqual(want);
  });
});

test("lists the MACs of all NICs of the VM, in lower case", () => {
  const all = sources(vmiWith("own", OWN, SECOND));
  expect(collectPathFacts(all).vmMacs).toEqual([MAC, "02:00:00:00:00:0b"]);
});

test.each([
  { name: "without an agent, in its first minutes", runningMs: 299_000, want: true },
  { name: "without an agent, later", runningMs: 300_000, want: undefined },
  { name: "with an agent, in its first minute", runningMs: 59_000, answer: [], want: true },
  { name: "with an agent, later", runningMs: 60_000, answer: [], want: undefined },
  { name: "whose start is unknown", want: undefined },
])("detects a booting guest: $name", ({ runningMs, answer, want }) => {
  const times = { ...(runningMs !== undefined && { runningMs }), ...(answer && { answer }) };
  const all = { ...sources(vmiWith("own", OWN)), ...times };
  expect(collectPathFacts(all).isBooting).toBe(want);
});

test("names the VM, the network's prefix length and the guest's NIC for the commands of fixes", () => {
  const all = sources(vmiWith("own", OWN));
  const iface = {
    ...all.iface,
    ...anIface({ device: { mac: MAC } }),
    remembered: { podInterfaceName: "pod0a", index: 3, addresses: ["10.9.0.5/22"], routes: [] },
  };
  const answer = [{ name: "ens3", mac: MAC, addresses: ["10.9.0.5"] }];
  const facts = collectPathFacts({ ...all, iface, answer, netns: "4026532999" });
  expect(facts).toMatchObject({
    names: { VM: "own", NAMESPACE: "default", INTERFACE: "a", LENGTH: "22" },
    guest: { name: "ens3" },
    netns: "4026532999",
  });
});

test("knows the IPv4 addresses of a pod NIC that translates", () => {
  const all = sources(vmiWith("own", OWN));
  const attachment = all.iface.attachment && {
    ...all.iface.attachment,
    ips: ["10.9.0.5", "fd00::5"],
  };
  const iface = { ...all.iface, ...(attachment && { attachment }) };
  expect(collectPathFacts({ ...all, iface }).podAddresses).toBeUndefined();
  const masquerade = { ...iface, binding: { kind: "masquerade" as const } };
  const declared = { ...masquerade, iface: { name: "a", masquerade: {} } };
  expect(collectPathFacts({ ...all, iface: declared }).podAddresses).toEqual(["10.9.0.5"]);
});

test("detects a paused guest", () => {
  const all = { ...sources(vmiWith("own", OWN)), isPaused: true };
  expect(collectPathFacts(all).isPaused).toBe(true);
});
