// SPDX-License-Identifier: Apache-2.0
import { parseIp } from "@patchbay/api/values";
import { describe, expect, test } from "vitest";
import {
  type AddressContext,
  findAddressProblems,
  findNodeAddressMember,
  findPortProblems,
  findRequestedProblems,
  type NodeSubnet,
} from "./node-addresses.ts";
import { listRuntimeMembers, withoutRuntimeMembers } from "./tenant-policy.ts";

type Plugin = Readonly<Record<string, unknown>> & { readonly type: string };

function configOf(...plugins: readonly Plugin[]) {
  return { cniVersion: "1.0.0", name: "n", plugins };
}

function subnet(text: string, link: string, isOfPlugin = false): NodeSubnet {
  const prefix = parseIp(text);
  if (prefix === undefined) throw new Error(text);
  return { prefix, link, isOfPlugin };
}

const POLICY = { ranges: ["10.60.0.0/16"], clusterNetworks: ["10.244.0.0/16", "10.96.0.0/12"] };
const SUBNETS = [subnet("127.0.0.1/8", "lo"), subnet("192.168.1.5/24", "eth0")];

const gateway = { type: "bridge", bridge: "blue", isGateway: true };

function local(...ranges: readonly string[]): Plugin {
  return { type: "host-local", ranges: ranges.map((each) => [{ subnet: each }]) };
}

function fixed(address: string, more: object = {}): Plugin {
  return { type: "static", addresses: [{ address, ...more }] };
}

interface Row {
  readonly name: string;
  readonly plugins: readonly Plugin[];
  readonly ips?: readonly string[];
  readonly policy?: Partial<typeof POLICY>;
  readonly subnets?: readonly NodeSubnet[];
  readonly foreignBridges?: readonly string[];
  readonly want: readonly RegExp[];
}

function judge({ plugins, ips = [], policy, subnets = SUBNETS, foreignBridges = [] }: Row) {
  const config = configOf(...plugins);
  const purpose = findNodeAddressMember(config);
  if (purpose === undefined) return [];
  const context: AddressContext = {
    policy: { ...POLICY, ...policy },
    subnets,
    foreignBridges: new Set(foreignBridges),
  };
  return findAddressProblems(purpose, { config, requestedIps: ips }, context);
}

const ALLOWED: readonly Omit<Row, "want">[] = [
  {
    name: "addresses without an effect on the node",
    plugins: [{ ...gateway, isGateway: false, ipam: fixed("10.244.1.5/28") }],
  },
  {
    name: "a gateway of the pod only",
    plugins: [{ type: "macvlan", ipam: fixed("192.168.1.9/24", { gateway: "192.168.1.1" }) }],
  },
  { name: "a gateway in a range", plugins: [{ ...gateway, ipam: local("10.60.1.0/24") }] },
  {
    name: "a static gateway in a range",
    plugins: [{ ...gateway, ipam: fixed("10.60.1.9/24", { gateway: "10.60.1.1" }) }],
  },
  {
    name: "routes and exclusions outside of the ranges",
    plugins: [
      {
        ...gateway,
        ipam: {
          ...local("10.60.1.0/24"),
          routes: [{ dst: "0.0.0.0/0", gw: "10.1.1.1" }],
          exclude: ["10.1.0.0/16"],
        },
      },
    ],
  },
  {
    name: "whereabouts' range",
    plugins: [{ ...gateway, ipam: { type: "whereabouts", range: "10.60.1.5-10.60.1.9/24" } }],
  },
  { name: "a gateway without IPAM, which has no effect", plugins: [gateway] },
  {
    name: "the bridge of the same network",
    plugins: [{ ...gateway, ipam: local("10.60.1.0/24") }],
    subnets: [...SUBNETS, subnet("10.60.1.1/24", "blue")],
  },
  {
    name: "another tenant's network in the range",
    plugins: [{ ...gateway, ipam: local("10.60.1.0/24") }],
    subnets: [...SUBNETS, subnet("10.60.2.1/24", "green", true)],
  },
  {
    name: "other pods of plugin ptp",
    plugins: [{ type: "ptp", ipam: local("10.60.1.0/24") }],
    subnets: [...SUBNETS, subnet("10.60.1.7/32", "veth1", true)],
  },
];

const OUTSIDE = /in no range that is allowed for .* \(--tenant-ranges\)$/;

const REFUSED: readonly Row[] = [
  {
    name: "a victim's address (148)",
    plugins: [{ ...gateway, ipam: fixed("10.244.1.5/28") }],
    want: [
      /^ipam\.addresses\[0\]\.address "10\.244\.1\.5\/28", which is in no range that is allowed for isGateway \(--tenant-ranges\)$/,
    ],
  },
  {
    name: "a gateway outside of the range",
    plugins: [{ ...gateway, ipam: fixed("10.60.1.9/24", { gateway: "10.244.0.1" }) }],
    want: [OUTSIDE],
  },
  {
    name: "a network that contains the range",
    plugins: [{ ...gateway, ipam: local("10.0.0.0/8") }],
    want: [OUTSIDE],
  },
  {
    name: "a requested address",
    plugins: [{ ...gateway, capabilities: { ips: true }, ipam: { type: "static" } }],
    ips: ["10.244.1.5/28"],
    want: [/^requested ips\[0\] "10\.244/],
  },
  {
    name: "a requested address by cni-args",
    plugins: [{ ...gateway, ipam: { type: "static" }, args: { cni: { ips: ["10.244.1.5/28"] } } }],
    want: [/^args\.cni\.ips\[0\] "10\.244/],
  },
  ...["isDefaultGateway", "ipMasq", "IsGateway", "iſGateway"].map((member) => ({
    name: member,
    plugins: [{ type: "bridge", bridge: "blue", [member]: true, ipam: local("10.61.0.0/24") }],
    want: [OUTSIDE],
  })),
  { name: "ptp", plugins: [{ type: "ptp", ipam: local("10.61.0.0/24") }], want: [OUTSIDE] },
  {
    name: "firewall behind another plugin",
    plugins: [
      { type: "bridge", bridge: "blue", ipam: local("10.61.0.0/24") },
      { type: "firewall" },
    ],
    want: [OUTSIDE],
  },
  {
    name: "a gateway of a delegate",
    plugins: [{ type: "own-meta", delegate: { ...gateway, ipam: local("10.61.0.0/24") } }],
    want: [OUTSIDE],
  },
  {
    name: "addresses of a DHCP server",
    plugins: [{ ...gateway, ipam: { type: "dhcp" } }],
    want: [/^ipam\.type "dhcp", whose addresses for isGateway are unknown/],
  },
  {
    name: "an address that only Go reads",
    plugins: [{ ...gateway, ipam: fixed("::ffff:10.60.1.1/120") }],
    want: [OUTSIDE],
  },
  {
    name: "text in place of an address",
    plugins: [{ ...gateway, ipam: local("10.060.1.0/24") }],
    want: [/which is not an address/],
  },
  {
    name: "anything without ranges",
    plugins: [{ ...gateway, ipam: local("10.60.1.0/24") }],
    policy: { ranges: [] },
    want: [OUTSIDE],
  },
  {
    name: "a range while the cluster networks are unknown",
    plugins: [{ ...gateway, ipam: local("10.60.1.0/24") }],
    policy: { clusterNetworks: [] },
    want: [/range 10\.60\.0\.0\/16 allows nothing until .*\(--cluster-networks\)/],
  },
  {
    name: "a range that overlaps the pod network",
    plugins: [{ ...gateway, ipam: local("10.60.1.0/24") }],
    policy: { ranges: ["10.0.0.0/8"] },
    want: [/range 10\.0\.0\.0\/8 overlaps the cluster network 10\.244\.0\.0\/16/],
  },
  {
    name: "a range that contains an address of the node",
    plugins: [{ ...gateway, ipam: local("10.60.1.0/24") }],
    subnets: [subnet("10.60.9.1/24", "eth0")],
    want: [/range 10\.60\.0\.0\/16 overlaps 10\.60\.9\.1\/24 of link eth0 of the node/],
  },
  {
    name: "a range inside of a route of the node",
    plugins: [{ ...gateway, ipam: local("10.60.1.0/24") }],
    subnets: [subnet("10.0.0.0/8", "")],
    want: [/overlaps 10\.0\.0\.0\/8 of the node/],
  },
  {
    name: "the network of another tenant's bridge",
    plugins: [{ ...gateway, ipam: local("10.60.1.0/24") }],
    subnets: [subnet("10.60.1.1/24", "green", true)],
    want: [/overlaps 10\.60\.1\.1\/24 of link green of the node/],
  },
  {
    name: "the network of an administrator's bridge that it names",
    plugins: [{ ...gateway, ipam: local("10.60.1.0/24") }],
    subnets: [subnet("10.60.1.1/24", "blue", true)],
    foreignBridges: ["blue"],
    want: [
      /^bridge "blue" with a gateway, although an administrator uses it/,
      /of link blue of the node/,
    ],
  },
  {
    name: "the removal of addresses from a bridge",
    plugins: [{ ...gateway, forceAddress: true, ipam: local("10.60.1.0/24") }],
    want: [/^forceAddress, which removes addresses of the node \(--trusted-namespaces\)$/],
  },
  {
    name: "too many addresses",
    plugins: [{ ...gateway, ipam: local(...Array.from({ length: 300 }, () => "10.60.1.0/24")) }],
    want: [/^more than 256 addresses/],
  },
];

describe("addresses that a tenant's network gives the node", () => {
  test.each(ALLOWED)("allows $name", (row) => {
    expect(judge({ ...row, want: [] })).toEqual([]);
  });

  test.each(REFUSED)("refuses $name", (row) => {
    expect(judge(row)).toEqual(row.want.map((pattern) => expect.stringMatching(pattern) as string));
  });

  test("cuts long names of members", () => {
    const ipam = { type: "static", ["k".repeat(100_000)]: { address: "10.1.0.1/24" } };
    const [problem = "", ...others] = judge({
      name: "",
      plugins: [{ ...gateway, ipam }],
      want: [],
    });
    expect(others).toEqual([]);
    expect(problem.length).toBeLessThan(1024);
  });
});

describe("addresses that a pod requests from an administrator's network", () => {
  const ipam = local("10.9.0.0/24");
  const config = configOf({ type: "bridge", ipam, args: { cni: { ips: ["10.8.0.1/24"] } } });
  const context = { policy: POLICY, subnets: SUBNETS, foreignBridges: new Set<string>() };

  function judgeBoth(ip: string): readonly number[] {
    const requests = [
      { config, requestedIps: [ip], requestedArgs: undefined },
      { config, requestedIps: [], requestedArgs: { ips: [ip] } },
    ];
    return requests.map((request) => findRequestedProblems("x", request, context).length);
  }

  test.each([["10.9.0.7"], ["10.9.0.7/24"], ["10.60.0.7/24"]])("allows %s", (ip) => {
    expect(judgeBoth(ip)).toEqual([0, 0]);
  });

  test.each([["10.244.0.7/24"], ["192.168.1.5"], ["10.9.0.7/8"]])("refuses %s", (ip) => {
    expect(judgeBoth(ip)).toEqual([1, 1]);
  });

  test("refuses text in place of an address", () => {
    const request = { config, requestedIps: ["x"], requestedArgs: undefined };
    expect(findRequestedProblems("x", request, context)).toHaveLength(1);
  });
});

describe("ports of the node", () => {
  const listening = new Set([6443, 22]);
  const policy = { ports: ["8000-8999", "80", "6443"] };

  test.each([
    { hostPort: 80, want: [] },
    { hostPort: 8999, want: [] },
    {
      hostPort: 9000,
      want: [
        "portMappings[0].hostPort 9000, which no administrator has allowed for tenants (--tenant-ports)",
      ],
    },
    { hostPort: 6443, want: ["portMappings[0].hostPort 6443, on which the node listens"] },
    { hostPort: 22, want: ["portMappings[0].hostPort 22, on which the node listens"] },
  ])("$hostPort", ({ hostPort, want }) => {
    expect(findPortProblems([{ hostPort, containerPort: 1 }], policy, listening)).toEqual(want);
  });

  test("judges each spelling of the member", () => {
    const mapping = { hostPort: 80, HOSTPORT: 6443 };
    expect(findPortProblems([mapping], policy, listening)).toEqual([
      "portMappings[0].HOSTPORT 6443, on which the node listens",
    ]);
  });

  test("refuses all while the node's ports are unknown", () => {
    expect(findPortProblems([{ hostPort: 80 }], policy, undefined)).toHaveLength(1);
  });
});

test("drops what only the runtime sets, in any case", () => {
  const config = configOf(
    { type: "a", runtimeConfig: { x: 1 }, RunTimeConfig: {}, keep: 1 },
    { type: "b", args: { cni: {} }, prevResult: {} },
  );
  expect(listRuntimeMembers(config)).toEqual([
    "plugins[0].runtimeConfig",
    "plugins[0].RunTimeConfig",
    "plugins[1].args",
    "plugins[1].prevResult",
  ]);
  expect(withoutRuntimeMembers(config).plugins).toEqual([{ type: "a", keep: 1 }, { type: "b" }]);
});
