// SPDX-License-Identifier: Apache-2.0
import type { Iface, Network } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import type { IfaceFacts } from "../facts.ts";
import { anIface, WIRED } from "../../testing/node-scene.ts";
import type { RememberedAddresses } from "./lease.ts";
import {
  buildServedNics,
  fitRoutes,
  fitSearch,
  limitOptions,
  type ServedNic,
} from "./served-nic.ts";

const POD_DNS = { nameservers: ["10.96.0.10"], search: ["cluster.local"] };
const OWN_DNS = { nameservers: ["10.9.0.53"], search: ["lan.example"] };
const NO_DNS = { nameservers: [], search: [] };
const GATEWAY = { destination: "0.0.0.0/0", gateway: "10.9.0.1" };
const GATEWAY_6 = { destination: "::/0", gateway: "fd09::1" };
const INNER = { destination: "10.50.0.0/16", gateway: "10.9.0.254" };

interface Row {
  readonly network: Network;
  readonly routes: RememberedAddresses["routes"];
  /** What CNI says of name servers. */
  readonly dns?: NonNullable<IfaceFacts["attachment"]>["dns"];
}

function pod(...routes: Row["routes"]): Row {
  return { network: { name: "main", pod: {} }, routes };
}

function lan(name: string, ...routes: Row["routes"]): Row {
  return { network: { name, multus: { networkName: name } }, routes };
}

/** `spec`: null if the interface was deleted from the specification. */
function ifaceOf({ network, routes, dns }: Row, spec: Partial<Iface> | null = {}): IfaceFacts {
  const { name } = network;
  const iface = anIface({ name, iface: spec, attachment: "Attached", links: WIRED });
  const { podInterfaceName, attachment } = iface;
  const gatewayMac = routes.includes(GATEWAY_6) ? { gatewayMac: "02:00:00:00:00:09" } : {};
  const addresses = ["10.9.0.5/24", "fd09::5/64"];
  return {
    ...iface,
    network,
    ...(attachment === undefined || dns === undefined
      ? {}
      : { attachment: { ...attachment, dns } }),
    remembered: { podInterfaceName, index: 3, addresses, routes, ...gatewayMac },
  };
}

/** Destinations and name servers that each NIC is told of. */
function reported(...rows: readonly Row[]): Readonly<Record<string, unknown>> {
  const nics = buildServedNics({
    vmi: aVmi({}),
    ifaces: rows.map((row) => ifaceOf(row)),
    dns: POD_DNS,
  });
  return Object.fromEntries(
    nics.map(({ iface, lease: { ipv4, ipv6 }, dns }) => {
      const destinations = (ipv4?.routes ?? []).map(({ destination }) => destination);
      return [iface, [[...destinations, ...(ipv6?.isRouter === true ? ["::/0"] : [])], dns]];
    }),
  );
}

const ALL = [GATEWAY, GATEWAY_6];
const ROUTES_OUT = ["0.0.0.0/0", "::/0"];

describe("name servers and default routes", () => {
  test("come from the pod network if the guest has it", () => {
    expect(reported(lan("a", INNER), pod(...ALL), lan("b", INNER, ...ALL))).toEqual({
      a: [["10.50.0.0/16"], NO_DNS],
      main: [ROUTES_OUT, POD_DNS],
      b: [["10.50.0.0/16"], NO_DNS],
    });
  });

  test("of a family that the pod network lacks come from another network", () => {
    expect(reported(pod(GATEWAY), lan("b", ...ALL))).toEqual({
      main: [["0.0.0.0/0"], POD_DNS],
      b: [["::/0"], NO_DNS],
    });
  });

  test("come from the network with the pod's default route if the guest has no other", () => {
    expect(reported(lan("a", INNER), lan("b", ...ALL))).toEqual({
      a: [["10.50.0.0/16"], NO_DNS],
      b: [ROUTES_OUT, POD_DNS],
    });
    expect(reported(lan("a", INNER))).toEqual({ a: [["10.50.0.0/16"], NO_DNS] });
  });

  test("come from the first network with a gateway, so that each family has one default route", () => {
    expect(reported(lan("a", INNER, GATEWAY), lan("b", INNER, ...ALL), lan("c", ...ALL))).toEqual({
      a: [["10.50.0.0/16", "0.0.0.0/0"], POD_DNS],
      b: [["10.50.0.0/16", "::/0"], POD_DNS],
      c: [[], NO_DNS],
    });
  });

  test("of a NIC that leaves the guest go to the next one", () => {
    const leaving = ifaceOf(lan("a", GATEWAY), null);
    const ifaces = [leaving, ifaceOf(lan("b", GATEWAY))];
    const nics = buildServedNics({ vmi: aVmi({}), ifaces, dns: POD_DNS });
    expect(nics.map(({ lease }) => lease.ipv4?.routes)).toEqual([[], [GATEWAY]]);
  });

  test("come from the network if CNI reports them", () => {
    expect(reported(pod(...ALL), { ...lan("b", INNER), dns: OWN_DNS })).toEqual({
      main: [ROUTES_OUT, POD_DNS],
      b: [["10.50.0.0/16"], OWN_DNS],
    });
  });
});

describe("a VM that names the interface with the default route", () => {
  const ANNOTATION = "patchbay.io/default-route";
  const OUTER = { destination: "0.0.0.0/0", gateway: "10.9.0.254" };

  function serve(chosen: string, ifaces: readonly IfaceFacts[]): readonly ServedNic[] {
    const vmi = aVmi({});
    const metadata = { ...vmi.metadata, annotations: { [ANNOTATION]: chosen } };
    return buildServedNics({ vmi: { ...vmi, metadata }, ifaces, dns: POD_DNS });
  }

  function withGateways(iface: IfaceFacts, ...gateways: readonly string[]): IfaceFacts {
    const { attachment } = iface;
    return {
      ...iface,
      ...(attachment && { attachment: { ...attachment, gateways: [...gateways] } }),
    };
  }

  const routesOf = (nics: readonly ServedNic[]) =>
    Object.fromEntries(
      nics.map(({ iface, lease: { ipv4, ipv6 } }) => [
        iface,
        [
          ...(ipv4?.routes ?? []).map(
            ({ destination, gateway = "" }) => `${destination} ${gateway}`,
          ),
          ...(ipv6?.isRouter === true ? ["::/0"] : []),
        ],
      ]),
    );

  test("gets both families from it, and keeps routes to the pod's name servers", () => {
    const ifaces = [pod(...ALL), lan("b", ...ALL), lan("c", INNER, GATEWAY)].map((row) =>
      ifaceOf(row),
    );
    const nics = serve("b", ifaces);
    expect(routesOf(nics)).toEqual({
      main: ["10.96.0.10/32 10.9.0.1"],
      b: ["0.0.0.0/0 10.9.0.1", "::/0"],
      c: ["10.50.0.0/16 10.9.0.254"],
    });
    expect(nics.map(({ dns }) => dns)).toEqual([POD_DNS, NO_DNS, NO_DNS]);
  });

  test("gets a family that the chosen network lacks from the pod network", () => {
    const ifaces = [pod(...ALL), lan("b", GATEWAY)].map((row) => ifaceOf(row));
    expect(routesOf(serve("b", ifaces))).toEqual({
      main: ["10.96.0.10/32 10.9.0.1", "::/0"],
      b: ["0.0.0.0/0 10.9.0.1"],
    });
  });

  test("gets it by the gateway that CNI returned without a route", () => {
    const chosen = withGateways(ifaceOf(lan("b", INNER)), "fd09::1", OUTER.gateway, "10.9.0.1");
    expect(routesOf(serve("b", [ifaceOf(pod(GATEWAY)), chosen]))).toEqual({
      main: ["10.96.0.10/32 10.9.0.1"],
      b: ["10.50.0.0/16 10.9.0.254", "0.0.0.0/0 10.9.0.254"],
    });
    const beyond = withGateways(ifaceOf(lan("b")), "10.8.0.1");
    expect(routesOf(serve("b", [beyond]))).toEqual({
      b: ["10.8.0.1/32 ", "0.0.0.0/0 10.8.0.1"],
    });
  });

  test("does not get it by a gateway to which the pod redirects no default route", () => {
    const chosen = withGateways(ifaceOf(lan("b")), "10.9.0.1");
    const { remembered } = chosen;
    const neighbors = [{ address: "10.9.0.1", mac: "02:00:00:00:00:09" }];
    const redirected = {
      ...chosen,
      ...(remembered && { remembered: { ...remembered, neighbors } }),
    };
    expect(routesOf(serve("b", [redirected]))).toEqual({ b: [] });
  });

  test("is informed if its network has no gateway, and keeps the pod network's route", () => {
    const nics = serve("b", [ifaceOf(pod(...ALL)), ifaceOf(lan("b", INNER))]);
    expect(routesOf(nics)["main"]).toEqual(
      ROUTES_OUT.map((to, at) => (at === 0 ? `${to} 10.9.0.1` : to)),
    );
    expect(nics.map(({ omissions }) => omissions)).toEqual([
      undefined,
      [
        "the annotation patchbay.io/default-route names this interface, but its network has no gateway that answers; add a default route to the network's ipam",
      ],
    ]);
  });

  test("gets none from other networks if the chosen network has its own DHCP server", () => {
    const { remembered, ...unassigned } = ifaceOf(lan("b"));
    expect(remembered).toBeDefined();
    const others = [ifaceOf(pod(...ALL)), ifaceOf(lan("c", ...ALL))];
    expect(routesOf(serve("b", [...others, unassigned]))).toEqual({
      main: ["10.96.0.10/32 10.9.0.1"],
      c: [],
    });
    const unwired = { ...unassigned, links: { ...unassigned.links, isWired: false } };
    expect(routesOf(serve("b", [...others, unwired]))["main"]).toEqual([
      "0.0.0.0/0 10.9.0.1",
      "::/0",
    ]);
  });

  test("has the usual order if the interface is removed or unknown", () => {
    const removed = ifaceOf(lan("b", ...ALL), null);
    const rows = [ifaceOf(pod(...ALL)), removed];
    const usual = { main: ["0.0.0.0/0 10.9.0.1", "::/0"], b: [] };
    for (const name of ["b", "green"]) expect(routesOf(serve(name, rows))).toEqual(usual);
  });
});

describe("parts of CNI's result that the server omits", () => {
  function omissions(
    addresses: readonly string[],
    gatewayMac?: string,
    routes: RememberedAddresses["routes"] = [],
  ): readonly string[] {
    const iface = ifaceOf(lan("a"));
    const { podInterfaceName } = iface;
    const known = gatewayMac === undefined ? {} : { gatewayMac };
    const remembered = { podInterfaceName, index: 3, addresses, routes, ...known };
    const [nic] = buildServedNics({ vmi: aVmi({}), ifaces: [{ ...iface, remembered }] });
    return nic?.omissions ?? [];
  }

  test("an IPv6 route that does not lead to the announced router", () => {
    const routes = [
      GATEWAY,
      INNER,
      GATEWAY_6,
      { destination: "fd09::1/128" },
      { destination: "fe80::1/128" },
      { destination: "fd50::/64", gateway: "fd09::1" },
      { destination: "fd51::/64", gateway: "fd09::2" },
    ];
    const missing = (destination: string) =>
      `the guest gets no route to ${destination}, because router advertisements contain only the default route; set the route in the guest`;
    const addresses = ["fd09::5/64"];
    expect(omissions(addresses, "02:00:00:00:00:09", routes)).toEqual([missing("fd51::/64")]);
    expect(omissions(addresses, undefined, routes)).toEqual(
      ["fd50::/64", "fd51::/64"].map(missing),
    );
    expect(omissions(["10.9.0.5/24"], undefined, routes)).toEqual([]);
  });

  test.each([
    { name: "no part for one address per family", addresses: ["10.9.0.5/24", "fd09::5/64"] },
    { name: "no part for two IPv6 addresses", addresses: ["fd09::5/64", "fd09::6/64"] },
    {
      name: "each additional IPv4 address",
      addresses: ["10.9.1.5/24", "10.9.2.5/24"],
      want: [/^IPv4 address 10\.9\.2\.5\/24 is not served/],
    },
    {
      name: "the subnet of a short prefix without a router",
      addresses: ["fd48::5/48"],
      want: [/^the guest gets fd48::5\/48 without a route to its subnet/],
    },
    {
      name: "no part for a short prefix behind a router",
      addresses: ["fd48::5/48"],
      gatewayMac: "02:00:00:00:00:09",
    },
  ])("$name", ({ addresses, gatewayMac, want = [] }) => {
    expect(omissions(addresses, gatewayMac)).toEqual(
      want.map((message) => expect.stringMatching(message) as unknown),
    );
  });
});

test("normalizes time servers with leading zeros", () => {
  const ntpServers = ["010.0.0.4", "10.0.0.5"];
  const iface = { ...ifaceOf(lan("a")), iface: { name: "a", dhcpOptions: { ntpServers } } };
  const [nic] = buildServedNics({ vmi: aVmi({}), ifaces: [iface] });
  expect(nic?.options).toEqual({ ntpServers: ["10.0.0.4", "10.0.0.5"] });
});

describe("the first search domain of a guest", () => {
  const service = "default.svc.cluster.local";
  const searchOf = (subdomain: string, search: readonly string[]): readonly string[] => {
    const vmi = aVmi({});
    const named = {
      ...vmi,
      metadata: { ...vmi.metadata, namespace: "default" },
      spec: { ...vmi.spec, hostname: "myvm", subdomain },
    };
    const dns = { nameservers: ["10.96.0.10"], search };
    const rows = [pod(GATEWAY), lan("b", GATEWAY)].map((row) => ifaceOf(row));
    const nics = buildServedNics({ vmi: named, ifaces: rows, dns });
    expect(nics.at(-1)?.dns).toEqual(NO_DNS);
    return nics[0]?.dns.search ?? [];
  };

  test.each([
    {
      name: "is the subdomain's Service domain",
      subdomain: "mysub",
      search: [service, "svc.cluster.local"],
      want: [`mysub.${service}`, service, "svc.cluster.local"],
    },
    {
      name: "contains the subdomain's Service domain once",
      subdomain: "mysub",
      search: [service, `mysub.${service}`],
      want: [`mysub.${service}`, service],
    },
    { name: "is the pod's without a subdomain", subdomain: "", search: [service], want: [service] },
    {
      name: "is the resolver's if the resolver has no Service domain",
      subdomain: "mysub",
      search: ["corp.example", "other.svc.cluster.local"],
      want: ["corp.example", "other.svc.cluster.local"],
    },
  ])("$name", ({ subdomain, search, want }) => {
    expect(searchOf(subdomain, search)).toEqual(want);
  });
});

const ROUTER = "10.9.0.1";
const DEFAULT = { destination: "0.0.0.0/0", gateway: ROUTER };
const ON_LINK = { destination: "169.254.1.1/32" };

function manyRoutes(count: number) {
  return Array.from({ length: count }, (_none, at) => ({
    destination: `10.${String(at)}.0.0/24`,
    gateway: ROUTER,
  }));
}

function manyDomains(count: number, parent: string): readonly string[] {
  return Array.from({ length: count }, (_none, at) => {
    const number = String(at).padStart(2, "0");
    return `n${number}${"a".repeat(45 - 3 - parent.length)}${parent}`;
  });
}

describe("the limit of routes", () => {
  test.each([
    { name: "31 routes to /24 networks fit", given: manyRoutes(31), want: [31, 0] },
    { name: "the 32nd route is omitted", given: manyRoutes(32), want: [31, 1] },
    { name: "a default route fits beside 31", given: [...manyRoutes(32), DEFAULT], want: [32, 1] },
  ])("$name", ({ given: input, want }) => {
    const { fitting, omissions } = fitRoutes(input);
    expect([fitting.length, omissions.length]).toEqual(want);
  });

  test("retains on-link and default routes in their order", () => {
    const { fitting } = fitRoutes([...manyRoutes(40), ON_LINK, DEFAULT]);
    expect(fitting.slice(-2)).toEqual([ON_LINK, DEFAULT]);
    expect(fitting[0]).toEqual(manyRoutes(1)[0]);
  });
});

describe("the limit of search domains", () => {
  const cluster = ["ns.svc.cluster.local", "svc.cluster.local", "cluster.local."];
  test.each([
    { name: "a cluster's search domains fit", given: cluster, hasIpv4: true, want: 3 },
    {
      name: "long search domains are truncated",
      given: manyDomains(12, ""),
      hasIpv4: true,
      want: 5,
    },
    {
      name: "a common parent domain saves space",
      given: manyDomains(12, ".example.com"),
      hasIpv4: true,
      want: 6,
    },
    { name: "all domains fit without IPv4", given: manyDomains(12, ""), hasIpv4: false, want: 12 },
    {
      name: "without IPv4 the router advertisement is still limited",
      given: Array.from({ length: 32 }, () => `${"a".repeat(60)}.${"b".repeat(60)}`),
      hasIpv4: false,
      want: 16,
    },
  ])("$name", ({ given: input, hasIpv4, want }) => {
    const { fitting, omissions } = fitSearch(input, hasIpv4);
    expect(fitting).toEqual(input.slice(0, want));
    expect(omissions).toEqual(input.slice(want));
  });
});

const NIC: ServedNic = {
  iface: "a",
  bridgeName: "k6t-1",
  mac: "02:00:00:00:00:01",
  mtu: 1400,
  hostname: "vm1",
  lease: { ipv4: { address: "10.9.0.5/24", server: "169.254.75.10/32", routes: manyRoutes(2) } },
  dns: { nameservers: [], search: [] },
  options: {},
};

test("a NIC whose options fit stays unchanged", () => {
  expect(limitOptions(NIC)).toBe(NIC);
});

test("options that do not fit are omitted, with a message for each kind", () => {
  const ntpServers = Array.from({ length: 80 }, (_none, at) => `10.0.0.${String(at)}`);
  const ipv4 = { address: "10.9.0.5/24", server: "169.254.75.10/32", routes: manyRoutes(32) };
  const nic = limitOptions<ServedNic>({
    ...NIC,
    lease: { ipv4 },
    dns: { nameservers: [], search: manyDomains(12, "") },
    options: { ntpServers, bootFileName: "a" },
  });
  expect(nic.lease.ipv4?.routes).toHaveLength(31);
  expect(nic.options).toEqual({ ntpServers: ntpServers.slice(0, 63), bootFileName: "a" });
  expect(nic.omissions).toEqual([
    expect.stringMatching(/^1 of 32 routes do not fit .* left out: 10\.31\.0\.0\/24$/),
    expect.stringMatching(
      /^7 of 12 search domains do not fit .* left out: n05a+, n06a+, n07a+, \.\.\.$/,
    ),
    expect.stringMatching(/^17 of 80 NTP servers do not fit .* left out: 10\.0\.0\.63, /),
    expect.stringMatching(/^the DHCP options need \d+ bytes and do not fit into a message of 576 /),
  ]);
});

describe("options that fit one by one", () => {
  const ipv4 = { address: "10.9.0.5/24", server: "169.254.75.10/32", routes: manyRoutes(20) };
  const withNtp = (count: number, more: ServedNic["options"] = {}) =>
    limitOptions<ServedNic>({
      ...NIC,
      hostname: "vm1",
      lease: { ipv4 },
      dns: { nameservers: [], search: [] },
      options: { ntpServers: Array.from({ length: count }, () => "10.0.0.1"), ...more },
    });

  test("are reported if they do not fit together into a message of 576 bytes", () => {
    expect(withNtp(63).omissions).toEqual([
      expect.stringMatching(
        /^the DHCP options need 473 bytes and do not fit into a message of 576 /,
      ),
    ]);
    expect(withNtp(63).options.ntpServers).toHaveLength(63);
  });

  test("are not reported if they fit, also into the fields of a network boot", () => {
    expect(withNtp(24).omissions).toBeUndefined();
    expect(withNtp(24, { bootFileName: "a" }).omissions).toHaveLength(1);
  });
});
