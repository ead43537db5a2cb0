// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { fitRoutes, fitSearch, withFittingOptions } from "./option-limits.ts";
import type { ServedNic } from "./served-nic.ts";

const GATEWAY = "10.9.0.1";
const DEFAULT = { destination: "0.0.0.0/0", gateway: GATEWAY };
const ON_LINK = { destination: "169.254.1.1/32" };

function routes(count: number) {
  return Array.from({ length: count }, (_none, at) => ({
    destination: `10.${String(at)}.0.0/24`,
    gateway: GATEWAY,
  }));
}

function domains(count: number, parent: string): readonly string[] {
  return Array.from({ length: count }, (_none, at) => {
    const number = String(at).padStart(2, "0");
    return `n${number}${"a".repeat(45 - 3 - parent.length)}${parent}`;
  });
}

describe("of routes", () => {
  test.each([
    { name: "31 of /24 fit", given: routes(31), want: [31, 0] },
    { name: "the 32nd is left out", given: routes(32), want: [31, 1] },
    { name: "a default route fits beside 31", given: [...routes(32), DEFAULT], want: [32, 1] },
  ])("$name", ({ given, want }) => {
    const { fitting, leftOut } = fitRoutes(given);
    expect([fitting.length, leftOut.length]).toEqual(want);
  });

  test("those on the link and the default route are kept, in their order", () => {
    const { fitting } = fitRoutes([...routes(40), ON_LINK, DEFAULT]);
    expect(fitting.slice(-2)).toEqual([ON_LINK, DEFAULT]);
    expect(fitting[0]).toEqual(routes(1)[0]);
  });
});

describe("of search domains", () => {
  const cluster = ["ns.svc.cluster.local", "svc.cluster.local", "cluster.local."];
  test.each([
    { name: "those of a cluster fit", given: cluster, hasIpv4: true, want: 3 },
    { name: "long ones are cut", given: domains(12, ""), hasIpv4: true, want: 5 },
    {
      name: "a common parent saves room",
      given: domains(12, ".example.com"),
      hasIpv4: true,
      want: 6,
    },
    { name: "all fit without IPv4", given: domains(12, ""), hasIpv4: false, want: 12 },
    {
      name: "even without IPv4 an advertisement has an end",
      given: Array.from({ length: 32 }, () => `${"a".repeat(60)}.${"b".repeat(60)}`),
      hasIpv4: false,
      want: 16,
    },
  ])("$name", ({ given, hasIpv4, want }) => {
    const { fitting, leftOut } = fitSearch(given, hasIpv4);
    expect(fitting).toEqual(given.slice(0, want));
    expect(leftOut).toEqual(given.slice(want));
  });
});

const NIC: ServedNic = {
  iface: "a",
  bridgeName: "k6t-1",
  mac: "02:00:00:00:00:01",
  mtu: 1400,
  hostname: "vm1",
  lease: { ipv4: { address: "10.9.0.5/24", server: "169.254.75.10/32", routes: routes(2) } },
  dns: { nameservers: [], search: [] },
  options: {},
};

test("a NIC whose options fit stays as it is", () => {
  expect(withFittingOptions(NIC)).toBe(NIC);
});

test("a NIC whose options do not fit is served without the rest, each part with a message", () => {
  const ntpServers = Array.from({ length: 80 }, (_none, at) => `10.0.0.${String(at)}`);
  const ipv4 = { address: "10.9.0.5/24", server: "169.254.75.10/32", routes: routes(32) };
  const nic = withFittingOptions<ServedNic>({
    ...NIC,
    lease: { ipv4 },
    dns: { nameservers: [], search: domains(12, "") },
    options: { ntpServers, bootFileName: "a" },
  });
  expect(nic.lease.ipv4?.routes).toHaveLength(31);
  expect(nic.options).toEqual({ ntpServers: ntpServers.slice(0, 63), bootFileName: "a" });
  expect(nic.leftOut).toEqual([
    expect.stringMatching(/^1 of 32 routes do not fit .* left out: 10\.31\.0\.0\/24$/),
    expect.stringMatching(
      /^7 of 12 search domains do not fit .* left out: n05a+, n06a+, n07a+, \.\.\.$/,
    ),
    expect.stringMatching(/^17 of 80 NTP servers do not fit .* left out: 10\.0\.0\.63, /),
  ]);
});
