// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { measureRangeUse, findDefinitionProblems, type DefinitionFacts } from "./suitability.ts";
import type { NetworkConfigList } from "../../interfaces/cni.ts";
import { collectNeeds } from "./needs.ts";

const HOST_LOCAL = { type: "host-local" };

interface RangeRow {
  readonly name: string;
  readonly ipam: Readonly<Record<string, unknown>>;
  readonly leases?: readonly string[];
  readonly want: readonly (readonly [string, bigint, number])[];
}

const RANGE_ROWS: readonly RangeRow[] = [
  {
    name: "a subnet without its network, broadcast and gateway addresses",
    ipam: { subnet: "10.1.0.0/24" },
    leases: ["10.1.0.2", "10.1.0.254", "last_reserved_ip.0", "lock"],
    want: [["ipam", 253n, 2]],
  },
  {
    name: "the smallest subnet",
    ipam: { subnet: "10.1.0.0/30" },
    leases: ["10.1.0.2"],
    want: [["ipam", 1n, 1]],
  },
  {
    name: "a part of a subnet without its gateway",
    ipam: { ranges: [[{ subnet: "10.1.0.0/24", rangeStart: "10.1.0.5", rangeEnd: "10.1.0.6" }]] },
    leases: ["10.1.0.5", "10.1.0.9"],
    want: [["ipam.ranges[0]", 2n, 1]],
  },
  {
    name: "a part of a subnet with its gateway",
    ipam: {
      ranges: [
        [
          {
            subnet: "10.1.0.0/24",
            rangeStart: "10.1.0.5",
            rangeEnd: "10.1.0.6",
            gateway: "10.1.0.6",
          },
        ],
      ],
    },
    want: [["ipam.ranges[0]", 1n, 0]],
  },
  {
    name: "a range that ends before it begins",
    ipam: { subnet: "10.1.0.0/24", rangeStart: "10.1.0.9", rangeEnd: "10.1.0.5" },
    want: [["ipam", 0n, 0]],
  },
  {
    name: "a set of two ranges and a second set",
    ipam: {
      ranges: [[{ subnet: "10.1.0.0/30" }, { subnet: "10.2.0.0/30" }], [{ subnet: "fd00::/126" }]],
    },
    leases: ["10.2.0.2", "fd00::2", "fd00::3"],
    want: [
      ["ipam.ranges[0]", 2n, 1],
      ["ipam.ranges[1]", 2n, 2],
    ],
  },
  {
    name: "the old field beside the new field",
    ipam: { subnet: "10.1.0.0/30", ranges: [[{ subnet: "fd00::/64" }]] },
    want: [
      ["ipam", 1n, 0],
      ["ipam.ranges[0]", 2n ** 64n - 2n, 0],
    ],
  },
  { name: "no ranges", ipam: {}, want: [] },
  {
    name: "a subnet that is too small, which the plugin rejects",
    ipam: { subnet: "10.1.0.0/31" },
    want: [],
  },
  { name: "an invalid subnet", ipam: { subnet: "10.1.0/24" }, want: [] },
  {
    name: "a start outside the subnet",
    ipam: { subnet: "10.1.0.0/24", rangeStart: "10.2.0.1" },
    want: [],
  },
  { name: "invalid sets", ipam: { ranges: ["x", [], [7]] }, want: [] },
];

describe("the address usage of", () => {
  test.each(RANGE_ROWS)("$name", ({ ipam, leases = [], want }) => {
    const observed = measureRangeUse({ ...HOST_LOCAL, ...ipam }, leases);
    expect(observed.map(({ field, size, used }) => [field, size, used])).toEqual(want);
  });
});

type Plugins = NetworkConfigList["plugins"];

interface Row {
  readonly name: string;
  readonly plugins: Plugins;
  readonly facts?: Partial<DefinitionFacts>;
  /** Codes and the beginnings of their words. */
  readonly want: readonly string[];
}

const IPAM = { type: "host-local", subnet: "10.1.0.0/30" };
const ALL = ["bridge", "macvlan", "ipvlan", "vlan", "ovs", "host-local", "tuning"];

const ROWS: readonly Row[] = [
  { name: "not for an existing bridge", plugins: [{ type: "bridge", bridge: "br1" }], want: [] },
  {
    name: "not for a missing bridge that the plugin creates",
    plugins: [{ type: "bridge", bridge: "br9" }],
    want: [],
  },
  {
    name: "a link that is not a bridge",
    plugins: [{ type: "bridge", bridge: "eth0" }],
    want: ["CNI_LINK_UNFIT network ns/blue needs eth0 (bridge) to be a bridge"],
  },
  {
    name: "another link with the default bridge's name",
    plugins: [{ type: "bridge" }],
    facts: { links: new Map([["cni0", "dummy"]]) },
    want: ["CNI_LINK_UNFIT network ns/blue needs cni0 (bridge)"],
  },
  {
    name: "a missing bridge that the plugin does not create",
    plugins: [{ type: "ovs", bridge: "br9" }],
    want: [
      "CNI_LINK_MISSING network ns/blue needs link br9 (bridge), which the node does not have",
    ],
  },
  ...["macvlan", "ipvlan", "vlan"].map((type) => ({
    name: `a missing master of ${type}`,
    plugins: [{ type, master: "eth9" }],
    want: ["CNI_LINK_MISSING network ns/blue needs link eth9 (master)"],
  })),
  { name: "not for an existing master", plugins: [{ type: "macvlan", master: "eth0" }], want: [] },
  { name: "not for an unset master", plugins: [{ type: "macvlan" }], want: [] },
  {
    name: "not for a master in the pod",
    plugins: [{ type: "vlan", master: "net1", linkInContainer: true }],
    want: [],
  },
  {
    name: "the second plugin's master, with its index",
    plugins: [{ type: "tuning" }, { type: "macvlan", master: "eth9" }],
    want: ["CNI_LINK_MISSING network ns/blue needs link eth9 (plugins[1].master)"],
  },
  {
    name: "missing plugins and IPAM plugins, each once",
    plugins: [{ type: "sriov", ipam: { type: "whereabouts" } }, { type: "sriov" }],
    want: [
      "CNI_PLUGIN_MISSING CNI plugin sriov was not found in /opt/cni/bin",
      "CNI_PLUGIN_MISSING CNI plugin whereabouts was not found",
    ],
  },
  {
    name: "a VLAN on a bridge without kernel support",
    plugins: [{ type: "bridge", bridge: "br1", vlan: 100 }],
    facts: { canFilterVlans: false },
    want: ["CNI_VLAN_UNSUPPORTED network ns/blue needs VLAN filtering on bridges (vlan)"],
  },
  {
    name: "a VLAN trunk without kernel support",
    plugins: [{ type: "cnv-bridge", bridge: "br1", vlanTrunk: [{ id: 5 }] }],
    facts: { canFilterVlans: false, plugins: new Set(["cnv-bridge"]) },
    want: ["CNI_VLAN_UNSUPPORTED network ns/blue needs VLAN filtering on bridges (vlanTrunk)"],
  },
  ...[true, undefined].map((canFilterVlans) => ({
    name: `not for a VLAN with kernel support: ${String(canFilterVlans)}`,
    plugins: [{ type: "bridge", bridge: "br1", vlan: 100 }],
    facts: { canFilterVlans },
    want: [],
  })),
  {
    name: "not for VLAN 0, which means no VLAN",
    plugins: [{ type: "bridge", bridge: "br1", vlan: 0, vlanTrunk: [] }],
    facts: { canFilterVlans: false },
    want: [],
  },
  {
    name: "a range with all addresses in use",
    plugins: [{ type: "bridge", bridge: "br1", ipam: IPAM }],
    facts: { leases: [["10.1.0.2"]] },
    want: ["CNI_ADDRESSES_EXHAUSTED all 1 addresses of ipam of network ns/blue are in use"],
  },
  {
    name: "not for a range with a free address",
    plugins: [{ type: "bridge", bridge: "br1", ipam: IPAM }],
    facts: { leases: [["10.1.0.77"]] },
    want: [],
  },
  {
    name: "an empty range",
    plugins: [
      { type: "tuning" },
      {
        type: "bridge",
        bridge: "br1",
        ipam: { ...IPAM, rangeStart: "10.1.0.2", rangeEnd: "10.1.0.1" },
      },
    ],
    want: [
      "CNI_CONFIG_INVALID the configuration of network ns/blue is invalid: spec.config.plugins[1].ipam: has no address for a pod",
    ],
  },
  {
    name: "ipvlan requested by a VM",
    plugins: [{ type: "ipvlan", master: "eth0" }],
    facts: { isRequestedByLauncher: true },
    want: ["CNI_CANNOT_CARRY_VM plugin ipvlan of network ns/blue"],
  },
  {
    name: "not for ipvlan requested by pods",
    plugins: [{ type: "ipvlan", master: "eth0" }],
    want: [],
  },
  {
    name: "not for macvlan requested by a VM",
    plugins: [{ type: "macvlan", master: "eth0" }],
    facts: { isRequestedByLauncher: true },
    want: [],
  },
  {
    name: "several problems, the most severe first",
    plugins: [
      { type: "macvlan", master: "eth9", ipam: { type: "dhcp" } },
      { type: "bridge", bridge: "eth0", vlan: 7 },
    ],
    facts: { canFilterVlans: false },
    want: ["CNI_PLUGIN_MISSING", "CNI_LINK_MISSING", "CNI_LINK_UNFIT", "CNI_VLAN_UNSUPPORTED"],
  },
];

describe("finds the problems of a definition", () => {
  test.each(ROWS)("$name", ({ plugins, facts = {}, want }) => {
    const problems = findDefinitionProblems({
      network: "ns/blue",
      pluginPath: "/opt/cni/bin",
      plugins: new Set(ALL),
      needs: collectNeeds({ cniVersion: "1.0.0", name: "blue", plugins }),
      links: new Map([
        ["eth0", ""],
        ["br1", "bridge"],
      ]),
      canFilterVlans: undefined,
      leases: [],
      isRequestedByLauncher: false,
      ...facts,
    });
    expect(problems.map(({ code, message }) => `${code} ${message}`)).toEqual(
      want.map((text) => expect.stringContaining(text) as string),
    );
  });
});

test("finds host-local's lease directory only if it is absolute", () => {
  const pools = (ipam: object) =>
    collectNeeds({ cniVersion: "1.0.0", name: "blue", plugins: [{ type: "ptp", ipam }] }).pools.map(
      ({ directory }) => directory,
    );
  expect(pools(IPAM)).toEqual(["/var/lib/cni/networks"]);
  expect(pools({ ...IPAM, dataDir: "/leases" })).toEqual(["/leases"]);
  expect(pools({ ...IPAM, dataDir: "leases" })).toEqual([]);
  expect(pools({ ...IPAM, type: "dhcp" })).toEqual([]);
});
