// SPDX-License-Identifier: Apache-2.0
// The host's part of Services, as commands of ip and nft.
import type { Command } from "@patchbay/core/interfaces";
import { createFakeProcessRunner } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import {
  claimServices,
  findDnsAddress,
  prepareHost,
  removeServices,
  buildTableName,
} from "./host.ts";

const NETWORK = "10.96.0.0/16";

function host(exitCode = 0) {
  const runner = createFakeProcessRunner({ ip: () => ({ exitCode }), nft: () => ({ exitCode }) });
  const toLine = ({ argv }: Command): string => argv.join(" ");
  return { runner, lines: () => runner.commands.map(toLine) };
}

test("the tenth address of the network is the DNS server's", () => {
  expect(findDnsAddress(NETWORK)).toBe("10.96.0.10");
  expect(findDnsAddress("no network")).toBe("");
  expect(buildTableName(NETWORK)).toBe("patchbay-services-10.96.0.0");
});

test.each([
  { name: "free", exitCode: 0, want: true },
  { name: "in use", exitCode: 2, want: false },
])("a network that is $name can be claimed: $want", async ({ exitCode, want }) => {
  const { runner, lines } = host(exitCode);
  expect(await claimServices(runner, NETWORK)).toBe(want);
  expect(lines()).toEqual(["ip -4 route add 10.96.0.0/16 dev lo"]);
});

test("adds the address and the route to the host", async () => {
  const { runner, lines } = host();
  await prepareHost(runner, NETWORK);
  expect(lines()).toEqual([
    "ip -4 addr replace 10.96.0.10/32 dev lo",
    "ip -4 route replace 10.96.0.0/16 dev lo src 10.96.0.10",
  ]);
});

test.each([0, 1])("removes address and route, even if programs exit with %d", async (exitCode) => {
  const { runner, lines } = host(exitCode);
  await removeServices(runner, NETWORK);
  expect(lines()).toEqual([
    "ip -4 route del 10.96.0.0/16 dev lo",
    "ip -4 addr del 10.96.0.10/32 dev lo",
    "nft -f -",
  ]);
  expect(runner.commands.at(-1)?.stdin).toContain("delete table ip patchbay-services-10.96.0.0");
});

test("removes nothing without a network", async () => {
  const { runner, lines } = host();
  await removeServices(runner, "");
  expect(lines()).toEqual([]);
});
