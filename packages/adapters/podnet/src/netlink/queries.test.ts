// SPDX-License-Identifier: Apache-2.0
// What of the kernel's words becomes a link, an address, an entry, and when is it asked again?
import { createFakeNetlink } from "@patchbay/podnet/testing";
import { describe, expect, test } from "vitest";
import { createKernel, type KernelOptions, type LinkOptions } from "../testing/fake-kernel.ts";
import { queryForwarding, queryLinks, queryRules } from "./queries.ts";

const NETNS = { fd: 8, inode: "42" };
const MAC = "02:00:00:00:0a:01";
const NIC: LinkOptions = { name: "pod1", index: 2, kind: "veth", mac: MAC, mtu: 1400 };
const BRIDGE: LinkOptions = {
  name: "k6t-1",
  index: 3,
  kind: "bridge",
  mac: "5e:00:00:00:0a:01",
  mtu: 1400,
  flags: ["up", "carrier", "noArp"],
};
const TAP: LinkOptions = {
  name: "tap1",
  index: 4,
  kind: "tun",
  mac: "16:0d:a3:7f:6f:38",
  mtu: 1400,
  flags: ["up"],
  master: 3,
  isLearning: false,
  isMultiQueue: false,
};
const LOOPBACK: LinkOptions = {
  name: "lo",
  index: 1,
  mac: "00:00:00:00:00:00",
  mtu: 65536,
  flags: ["up", "carrier"],
  addresses: ["127.0.0.1/8", "00000000000000000000000000000001/128"],
};

describe("links", () => {
  test("are reported with all settings that wiring changes, sorted by name", async () => {
    const netlink = createKernel(() => ({ links: [LOOPBACK, NIC, BRIDGE, TAP] }));
    const other = {
      addresses: [],
      flooding: true,
      passesSwitchFrames: false,
      noArp: false,
      isPlainBridge: false,
      learning: true,
    };
    expect(await queryLinks(netlink, NETNS)).toEqual([
      {
        ...other,
        name: "k6t-1",
        index: 3,
        kind: "bridge",
        mac: "5e:00:00:00:0a:01",
        mtu: 1400,
        up: true,
        carrier: true,
        noArp: true,
        isPlainBridge: true,
      },
      {
        ...other,
        name: "lo",
        index: 1,
        kind: "",
        mac: "00:00:00:00:00:00",
        mtu: 65536,
        up: true,
        carrier: true,
        addresses: ["127.0.0.1/8", "::1/128"],
      },
      {
        ...other,
        name: "pod1",
        index: 2,
        kind: "veth",
        mac: MAC,
        mtu: 1400,
        up: false,
        carrier: false,
      },
      {
        ...other,
        name: "tap1",
        index: 4,
        kind: "tun",
        mac: "16:0d:a3:7f:6f:38",
        mtu: 1400,
        up: true,
        carrier: false,
        master: "k6t-1",
        learning: false,
        tapQueues: "one",
      },
    ]);
  });

  test.each(["forwardDelay", "spanningTree", "snooping"] as const)(
    "of type bridge that differ only in %s are not plain",
    async (name) => {
      const netlink = createKernel(() => ({ links: [{ ...BRIDGE, bridge: { [name]: 1 } }] }));
      expect((await queryLinks(netlink, NETNS))[0]?.isPlainBridge).toBe(false);
    },
  );

  test("of type tap report several queues", async () => {
    const netlink = createKernel(() => ({ links: [{ ...TAP, isMultiQueue: true }] }));
    expect((await queryLinks(netlink, NETNS))[0]?.tapQueues).toBe("many");
  });

  test("that change during the query are queried again", async () => {
    const states: KernelOptions[] = [{ links: [NIC], isInterrupted: true }, { links: [NIC, TAP] }];
    let requests = 0;
    const netlink = createKernel(() => states[Math.floor(requests++ / 2)] ?? {});
    expect((await queryLinks(netlink, NETNS)).map(({ name }) => name)).toEqual(["pod1", "tap1"]);
  });

  test("that never stop changing are returned as last reported", async () => {
    const netlink = createKernel(() => ({ links: [NIC], isInterrupted: true }));
    expect(await queryLinks(netlink, NETNS)).toHaveLength(1);
    expect(netlink.sent).toHaveLength(8);
  });

  test("that the kernel does not report are an error", async () => {
    const netlink = createFakeNetlink(() => ({ errno: 1 }));
    await expect(queryLinks(netlink, NETNS)).rejects.toMatchObject({ code: "PODNET_FAILED" });
  });

  test("before a truncated message are returned", async () => {
    const whole = createKernel(() => ({ links: [NIC, TAP] }));
    const [answer] = await whole.exchangeMessages(NETNS, "route", [
      new Uint8Array([0, 0, 0, 0, 18, 0]),
    ]);
    const data = answer?.data.subarray(0, answer.data.length - 8) ?? new Uint8Array();
    const netlink = createFakeNetlink((_protocol, message) => (message[4] === 18 ? { data } : {}));
    expect((await queryLinks(netlink, NETNS)).map(({ name }) => name)).toEqual(["pod1"]);
  });
});

test("forwarding entries are the bridge's, not the devices'", async () => {
  const netlink = createKernel(() => ({
    links: [NIC, BRIDGE, TAP],
    forwarding: [
      { mac: "33:33:00:00:00:01", index: 2, state: "permanent" },
      { mac: MAC, index: 4, master: 3, state: "static" },
      { mac: "6e:5a:aa:b4:d2:27", index: 2, master: 3 },
      { mac: "6e:5a:aa:b4:d2:28", index: 2, master: 3, state: "permanent" },
      { mac: "6e:5a:aa:b4:d2:29", index: 99, master: 3 },
    ],
  }));
  expect((await queryForwarding(netlink, NETNS)).forwarding).toEqual([
    { mac: MAC, device: "tap1", state: "static" },
    { mac: "6e:5a:aa:b4:d2:27", device: "pod1", state: "" },
    { mac: "6e:5a:aa:b4:d2:28", device: "pod1", state: "permanent" },
  ]);
});

describe("nftables rules", () => {
  test.each([
    { name: "do not exist", rules: undefined, want: { generation: "00000001", hasTables: false } },
    { name: "have a generation", rules: 258, want: { generation: "00000102", hasTables: true } },
  ])("$name", async ({ rules, want }) => {
    const options = rules === undefined ? {} : { rules };
    expect(
      await queryRules(
        createKernel(() => options),
        NETNS,
      ),
    ).toEqual(want);
  });

  test("must be read if the kernel does not report their generation", async () => {
    const netlink = createFakeNetlink(() => ({ errno: 95 }));
    expect(await queryRules(netlink, NETNS)).toEqual({ generation: undefined, hasTables: true });
  });
});
