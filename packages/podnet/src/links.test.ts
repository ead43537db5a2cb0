// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseForwarding, parseLinks } from "./links.ts";

/** Captured from iproute2 6.1, shortened. */
const LINKS = `[{"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP","LOWER_UP"],"mtu":65536,"link_type":"loopback",
"address":"00:00:00:00:00:00","linkinfo":{},"addr_info":[{"family":"inet","local":"127.0.0.1","prefixlen":8}]},{},
{"ifindex":4,"ifname":"tap1","flags":["NO-CARRIER","BROADCAST","MULTICAST","UP"],"mtu":1400,"master":"k6t-1",
"link_type":"ether","address":"16:0d:a3:7f:6f:38","linkinfo":{"info_kind":"tun","info_data":{"type":"tap"},
"info_slave_kind":"bridge","info_slave_data":{"learning":false}},"addr_info":[]},
{"ifindex":3,"ifname":"k6t-1","flags":["BROADCAST","MULTICAST","NOARP","UP","LOWER_UP"],"mtu":1400,
"address":"5e:00:00:00:0a:01","linkinfo":{"info_kind":"bridge","info_data":{"forward_delay":0,"stp_state":0,
"mcast_snooping":0}},"addr_info":[]},
{"ifindex":2,"link_index":4,"ifname":"pod1","flags":["BROADCAST","MULTICAST"],"mtu":1400,
"address":"02:00:00:00:0a:01","linkinfo":{"info_kind":"veth"}}]`;

const FORWARDING = `[{"mac":"33:33:00:00:00:01","ifname":"pod1","flags":["self"],"state":"permanent"},
{"mac":"02:00:00:00:0a:01","ifname":"tap1","flags":[],"master":"k6t-1","state":"static"},
{"mac":"6e:5a:aa:b4:d2:27","ifname":"pod1","flags":[],"master":"k6t-1","state":""}]`;

test("links are read with all that wiring sets, sorted by name", () => {
  const plainLink = { addresses: [], noArp: false, plain: false, learning: true };
  expect(parseLinks(LINKS)).toEqual([
    {
      ...plainLink,
      ...{ name: "k6t-1", index: 3, kind: "bridge", mac: "5e:00:00:00:0a:01", mtu: 1400 },
      ...{ up: true, carrier: true, noArp: true, plain: true },
    },
    {
      ...plainLink,
      ...{ name: "lo", index: 1, kind: "", mac: "00:00:00:00:00:00", mtu: 65536 },
      ...{ up: true, carrier: true, addresses: ["127.0.0.1/8"] },
    },
    {
      ...plainLink,
      ...{ name: "pod1", index: 2, kind: "veth", mac: "02:00:00:00:0a:01", mtu: 1400 },
      ...{ up: false, carrier: false },
    },
    {
      ...plainLink,
      ...{ name: "tap1", index: 4, kind: "tun", mac: "16:0d:a3:7f:6f:38", mtu: 1400 },
      ...{ up: true, carrier: false, master: "k6t-1", learning: false },
    },
  ]);
});

test("forwarding entries are those of the bridge, not of the devices", () => {
  expect(parseForwarding(FORWARDING)).toEqual([
    { mac: "02:00:00:00:0a:01", device: "tap1", state: "static" },
    { mac: "6e:5a:aa:b4:d2:27", device: "pod1", state: "" },
  ]);
});

test.each(["", "\n"])("no output, %j, means no links", (text) => {
  expect(parseLinks(text)).toEqual([]);
});

test("what is no link, or says something in another form, is left out", () => {
  expect(parseLinks('[null, 1, {"ifname": "a", "mtu": "9000", "address": 7}]')).toMatchObject([
    { name: "a", mtu: 0, mac: "", index: 0, addresses: [] },
  ]);
});

test.each(["stp_state", "forward_delay", "mcast_snooping"])(
  "a bridge that differs in %s alone is not plain",
  (name) => {
    const plain = { stp_state: 0, forward_delay: 0, mcast_snooping: 0 };
    const linkinfo = { info_kind: "bridge", info_data: { ...plain, [name]: 1 } };
    expect(parseLinks(JSON.stringify([{ ifname: "br0", linkinfo }]))[0]?.plain).toBe(false);
  },
);

test("output that is no list is an error", () => {
  expect(() => parseLinks("Usage: ip ...")).toThrow("no JSON list");
});
