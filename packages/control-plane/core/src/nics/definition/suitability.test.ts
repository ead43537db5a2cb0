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
    name: "a subnet: not its own, its last, and its gateway's address",
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
    name: "a part of a subnet, without its gateway",
    ipam: { ranges: [[{ subnet: "10.1.0.0/24", rangeStart: "10.1.0.5", rangeEnd: "10.1.0.6" }]] },
    leases: ["10.1.0.5", "10.1.0.9"],
    want: [["ipam.ranges[0]", 2n, 1]],
  },
  {
    name: "a part with its gateway in it",
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
    name: "a part that ends before it begins",
    ipam: { subnet: "10.1.0.0/24", rangeStart: "10.1.0.9", rangeEnd: "10.1.0.5" },
    want: [["ipam", 0n, 0]],
  },
  {
    name: "two ranges that serve each other, and another set",
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
    name: "the old form beside the new one",
    ipam: { subnet: "10.1.0.0/30", ranges: [[{ subnet: "fd00::/64" }]] },
    want: [
      ["ipam", 1n, 0],
      ["ipam.ranges[0]", 2n ** 64n - 2n, 0],
    ],
  },
  { name: "no range", ipam: {}, want: [] },
  {
    name: "a subnet without room, which the plugin refuses",
    ipam: { subnet: "10.1.0.0/31" },
    want: [],
  },
  { name: "a subnet that is none", ipam: { subnet: "10.1.0/24" }, want: [] },
  { name: "a start outside", ipam: { subnet: "10.1.0.0/24", rangeStart: "10.2.0.1" }, want: [] },
  { name: "a set that is none", ipam: { ranges: ["x", [], [7]] }, want: [] },
];

describe("use of", () => {
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
  { name: "a bridge that is there", plugins: [{ type: "bridge", bridge: "br1" }], want: [] },
  {
    name: "a bridge that is not there, which the plugin makes",
    plugins: [{ type: "bridge", bridge: "br9" }],
    want: [],
  },
  {
    name: "a link of a bridge's name that is none",
    plugins: [{ type: "bridge", bridge: "eth0" }],
    want: ["CNI_LINK_UNFIT network ns/blue needs eth0 (bridge) to be a bridge"],
  },
  {
    name: "no bridge is named, and the default's name is another link's",
    plugins: [{ type: "bridge" }],
    facts: { links: new Map([["cni0", "dummy"]]) },
    want: ["CNI_LINK_UNFIT network ns/blue needs cni0 (bridge)"],
  },
  {
    name: "a bridge that its plugin does not make",
    plugins: [{ type: "ovs", bridge: "br9" }],
    want: [
      "CNI_LINK_MISSING network ns/blue needs link br9 (bridge), which the node does not have",
    ],
  },
  ...["macvlan", "ipvlan", "vlan"].map((type) => ({
    name: `a master of ${type} that is missing`,
    plugins: [{ type, master: "eth9" }],
    want: ["CNI_LINK_MISSING network ns/blue needs link eth9 (master)"],
  })),
  { name: "a master that is there", plugins: [{ type: "macvlan", master: "eth0" }], want: [] },
  { name: "a master that is not named", plugins: [{ type: "macvlan" }], want: [] },
  {
    name: "a master within the pod",
    plugins: [{ type: "vlan", master: "net1", linkInContainer: true }],
    want: [],
  },
  {
    name: "the second plugin's, with its place",
    plugins: [{ type: "tuning" }, { type: "macvlan", master: "eth9" }],
    want: ["CNI_LINK_MISSING network ns/blue needs link eth9 (plugins[1].master)"],
  },
  {
    name: "plugins and their IPAM plugins that are missing, each once",
    plugins: [{ type: "sriov", ipam: { type: "whereabouts" } }, { type: "sriov" }],
    want: [
      "CNI_PLUGIN_MISSING CNI plugin sriov was not found in /opt/cni/bin",
      "CNI_PLUGIN_MISSING CNI plugin whereabouts was not found",
    ],
  },
  {
    name: "a VLAN on a bridge, where the kernel cannot",
    plugins: [{ type: "bridge", bridge: "br1", vlan: 100 }],
    facts: { canFilterVlans: false },
    want: ["CNI_VLAN_UNSUPPORTED network ns/blue needs VLAN filtering on bridges (vlan)"],
  },
  {
    name: "a trunk, where the kernel cannot",
    plugins: [{ type: "cnv-bridge", bridge: "br1", vlanTrunk: [{ id: 5 }] }],
    facts: { canFilterVlans: false, plugins: new Set(["cnv-bridge"]) },
    want: ["CNI_VLAN_UNSUPPORTED network ns/blue needs VLAN filtering on bridges (vlanTrunk)"],
  },
  ...[true, undefined].map((canFilterVlans) => ({
    name: `a VLAN where the kernel can: ${String(canFilterVlans)}`,
    plugins: [{ type: "bridge", bridge: "br1", vlan: 100 }],
    facts: { canFilterVlans },
    want: [],
  })),
  {
    name: "VLAN 0, which is none",
    plugins: [{ type: "bridge", bridge: "br1", vlan: 0, vlanTrunk: [] }],
    facts: { canFilterVlans: false },
    want: [],
  },
  {
    name: "the last address is in use",
    plugins: [{ type: "bridge", bridge: "br1", ipam: IPAM }],
    facts: { leases: [["10.1.0.2"]] },
    want: ["CNI_ADDRESSES_EXHAUSTED all 1 addresses of ipam of network ns/blue are in use"],
  },
  {
    name: "an address is free",
    plugins: [{ type: "bridge", bridge: "br1", ipam: IPAM }],
    facts: { leases: [["10.1.0.77"]] },
    want: [],
  },
  {
    name: "a range that is empty",
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
    name: "ipvlan that a VM asks for",
    plugins: [{ type: "ipvlan", master: "eth0" }],
    facts: { isRequestedByLauncher: true },
    want: ["CNI_CANNOT_CARRY_VM plugin ipvlan of network ns/blue"],
  },
  { name: "ipvlan for pods", plugins: [{ type: "ipvlan", master: "eth0" }], want: [] },
  {
    name: "macvlan that a VM asks for",
    plugins: [{ type: "macvlan", master: "eth0" }],
    facts: { isRequestedByLauncher: true },
    want: [],
  },
  {
    name: "several things, the gravest first",
    plugins: [
      { type: "macvlan", master: "eth9", ipam: { type: "dhcp" } },
      { type: "bridge", bridge: "eth0", vlan: 7 },
    ],
    facts: { canFilterVlans: false },
    want: ["CNI_PLUGIN_MISSING", "CNI_LINK_MISSING", "CNI_LINK_UNFIT", "CNI_VLAN_UNSUPPORTED"],
  },
];

describe("a definition names", () => {
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

test("finds host-local's leases in absolute directories only", () => {
  const pools = (ipam: object) =>
    collectNeeds({ cniVersion: "1.0.0", name: "blue", plugins: [{ type: "ptp", ipam }] }).pools.map(
      ({ directory }) => directory,
    );
  expect(pools(IPAM)).toEqual(["/var/lib/cni/networks"]);
  expect(pools({ ...IPAM, dataDir: "/leases" })).toEqual(["/leases"]);
  expect(pools({ ...IPAM, dataDir: "leases" })).toEqual([]);
  expect(pools({ ...IPAM, type: "dhcp" })).toEqual([]);
});
