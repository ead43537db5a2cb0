// SPDX-License-Identifier: Apache-2.0
import type { AttachmentRequest, CniResult, Command } from "@patchbay/core/ports";
import { expect, test } from "vitest";
import { restoreNic } from "./restore.ts";

const OWN_MAC = "02:00:00:00:00:0A";
const GUEST_MAC = "02:00:00:00:00:01";
const NIC = { name: "net1", mac: OWN_MAC, sandbox: "/run/netns/box" };
const HOST_NIC = { name: "net1", mac: "02:00:00:00:00:0b" };
const OTHER_NIC = { name: "net2", mac: OWN_MAC, sandbox: "/run/netns/box" };

const REQUEST: AttachmentRequest = {
  containerId: "box",
  netnsPath: "/run/netns/box",
  interfaceName: "net1",
  config: { cniVersion: "1.0.0", name: "blue", plugins: [{ type: "bridge" }] },
  args: [
    ["IgnoreUnknown", "1"],
    ["MAC", GUEST_MAC],
  ],
  capabilityArgs: {},
};

async function commandsFor(
  result: Omit<CniResult, "cniVersion">,
  request = REQUEST,
): Promise<readonly Command[]> {
  const commands: Command[] = [];
  const run = (command: Command): Promise<{ exitCode: number; stdout: string; stderr: string }> => {
    commands.push(command);
    return Promise.resolve({ exitCode: 1, stdout: "", stderr: "gone" });
  };
  const runner = { run, endFamily: () => Promise.resolve() };
  await restoreNic(runner, request, { cniVersion: "1.0.0", ...result });
  return commands;
}

test("a NIC gets its own MAC and the addresses of the result back, in its namespace", async () => {
  const ips = [{ interface: 1, address: "10.0.0.2/24" }, { address: "fd00::2/64" }];
  expect(await commandsFor({ interfaces: [HOST_NIC, NIC, OTHER_NIC], ips })).toEqual([
    {
      argv: ["nsenter", "--net=/run/netns/box", "ip", "-force", "-batch", "-"],
      stdin: [
        "link set net1 down address 02:00:00:00:00:0A\n",
        "address replace 10.0.0.2/24 dev net1\n",
        "address replace fd00::2/64 dev net1\n",
      ].join(""),
      timeoutMs: 5_000,
    },
  ]);
});

test.each([
  {
    name: "of a host's NIC of that name",
    result: { interfaces: [HOST_NIC] },
  },
  {
    name: "of a NIC of that name that is in no sandbox",
    result: { interfaces: [{ ...NIC, sandbox: "" }] },
  },
  {
    name: "that is the one that was asked for",
    result: { interfaces: [{ ...NIC, mac: GUEST_MAC }] },
  },
  { name: "that is no MAC", result: { interfaces: [{ ...NIC, mac: "x up" }] } },
  { name: "that no result tells", result: { interfaces: [{ name: "net1", sandbox: "/x" }] } },
  { name: "of a result without NICs", result: {} },
])("no MAC is set: one $name", async ({ result }) => {
  expect(await commandsFor(result)).toEqual([]);
});

test("a MAC that nobody asked for is left as it is", async () => {
  const args = REQUEST.args.slice(0, 1);
  expect(await commandsFor({ interfaces: [NIC] }, { ...REQUEST, args })).toEqual([]);
});

test.each([
  { name: "of another NIC", ip: { interface: 1, address: "10.0.0.2/24" } },
  { name: "that is none", ip: { address: "10.0.0.2/24 dev eth0" } },
])("no address is set: one $name", async ({ ip }) => {
  const interfaces = [{ ...NIC, mac: GUEST_MAC }, OTHER_NIC];
  expect(await commandsFor({ interfaces, ips: [ip] })).toEqual([]);
});

test("nothing is done where the namespace is gone", async () => {
  const { containerId, interfaceName, config, args, capabilityArgs } = REQUEST;
  const gone = { containerId, interfaceName, config, args, capabilityArgs };
  expect(await commandsFor({ interfaces: [NIC] }, gone)).toEqual([]);
});
