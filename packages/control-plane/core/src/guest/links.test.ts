// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { readGuestLinks, type GuestLink, type GuestNic } from "./links.ts";

const MAC = "02:00:00:00:00:01";

function nic(name: string, mac: string, ...addresses: readonly string[]): GuestNic {
  return { name, mac, addresses };
}

function read(...nics: readonly GuestNic[]): GuestLink | undefined {
  return readGuestLinks(nics)[0];
}

describe("the guest's name for a NIC is", () => {
  test.each([
    { name: "the name from the agent", nics: [nic("enp2s0", MAC)], want: "enp2s0" },
    {
      name: "found for a MAC in capitals",
      nics: [nic("Ethernet 2", "02:00:00:00:00:0A")],
      want: "Ethernet 2",
    },
    {
      name: "the NIC's name, not that of a VLAN on it",
      nics: [nic("eth0", MAC), nic("eth0.100", MAC)],
      want: "eth0",
    },
    { name: "unknown when it is empty", nics: [nic("", MAC)], want: undefined },
    { name: "unknown if it is too long", nics: [nic("e".repeat(256), MAC)], want: undefined },
    { name: "unknown if it contains terminal control characters", nics: [nic("e\u001b[2J", MAC)] },
    { name: "unknown if it contains bidirectional controls", nics: [nic("e\u202e0hte", MAC)] },
  ])("$name", ({ nics, want }) => {
    expect(read(...nics)?.mac).toMatch(/^02:00:00:00:00:0[1a]$/);
    expect(read(...nics)?.name).toBe(want);
  });
});

describe("the addresses of a link are", () => {
  test.each([
    { name: "none", given: [], want: { ipv4: [], ipv6: [] } },
    {
      name: "IPv4 and IPv6, in the guest's order, without duplicates",
      given: ["fe80::1", "10.0.0.9", "10.0.0.1", "10.0.0.9", "FE80:0::1", "fd00::2"],
      want: { ipv4: ["10.0.0.9", "10.0.0.1"], ipv6: ["fe80::1", "fd00::2"] },
    },
    {
      name: "omitted if invalid",
      given: ["", "10.0.0.1/24", "fe80::1%eth0", "<script>", "10.0.0.1\n", "1".repeat(10_000)],
      want: { ipv4: [], ipv6: [] },
    },
    {
      name: "omitted if not usable as unicast addresses",
      given: [
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "127.9.9.9",
        "224.0.0.1",
        "239.1.1.1",
        "255.255.255.255",
        "240.0.0.1",
        "::",
        "::1",
        "ff02::1",
        "::127.0.0.1",
      ],
      want: { ipv4: [], ipv6: [] },
    },
    {
      name: "omitted for an IPv4-mapped loopback address",
      given: ["::ffff:127.0.0.1"],
      want: { ipv4: [], ipv6: [] },
    },
  ])("$name", ({ given: input, want }) => {
    expect(read(nic("eth0", MAC, ...input))).toMatchObject(want);
  });

  test("limited to 16 per family", () => {
    const many = Array.from({ length: 40 }, (_, index) => `10.0.0.${String(index + 1)}`);
    const link = read(nic("eth0", MAC, ...many, "fd00::1"));
    expect(link?.ipv4).toEqual(many.slice(0, 16));
    expect(link?.ipv6).toEqual(["fd00::1"]);
  });

  test("include those of aliases and of links on top", () => {
    const link = read(
      nic("eth0", MAC, "10.0.0.1"),
      nic("eth0:1", MAC, "10.0.0.2"),
      nic("br0", MAC, "10.0.0.1", "10.0.0.3"),
    );
    expect(link).toEqual({
      mac: MAC,
      name: "eth0",
      ipv4: ["10.0.0.1", "10.0.0.2", "10.0.0.3"],
      ipv6: [],
    });
  });
});

describe("a link is", () => {
  test.each([
    {
      name: "the loopback link",
      nics: [nic("lo", "00:00:00:00:00:00", "127.0.0.1", "10.96.0.10")],
    },
    { name: "a tunnel without an address", nics: [nic("tun0", "")] },
    { name: "a link without name and MAC", nics: [nic("", "", "10.8.0.2")] },
    { name: "a link named like a JavaScript property", nics: [nic("__proto__", "__proto__")] },
  ])("omitted: $name", ({ nics }) => {
    expect(readGuestLinks(nics)).toEqual([]);
  });

  test("listed without a MAC if it has a name and an address", () => {
    expect(
      readGuestLinks([nic("tun0", "", "10.8.0.2"), nic("tun1", "not one", "10.9.0.2")]),
    ).toEqual([
      { name: "tun0", ipv4: ["10.8.0.2"], ipv6: [] },
      { name: "tun1", ipv4: ["10.9.0.2"], ipv6: [] },
    ]);
  });

  test("listed in the guest's order", () => {
    const macs = [3, 1, 2].map((last) => `02:00:00:00:00:0${String(last)}`);
    const links = readGuestLinks(macs.map((mac) => nic("", mac)));
    expect(links.map(({ mac }) => mac)).toEqual(macs);
  });
});
