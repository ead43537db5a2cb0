// SPDX-License-Identifier: Apache-2.0
import { names, type VirtualMachineInstance } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { aBlueDefinition, aNetworkService, aServedVmi } from "../testing/network-services.ts";
import { isEqual } from "@patchbay/base";
import {
  networkServicePlan,
  listServiceInputs,
  type NetworkServiceFacts,
} from "./network-service.ts";

const TRUSTED = ["default"];

function factsOf(change: Partial<NetworkServiceFacts> = {}): NetworkServiceFacts {
  return {
    service: aNetworkService(),
    vmis: [aServedVmi("vm1", ["10.77.1.5"])],
    definition: aBlueDefinition(),
    trustedNamespaces: TRUSTED,
    ...change,
  };
}

/** Ports, addresses and readiness, slice by slice. */
function shown(change: Partial<NetworkServiceFacts>): unknown {
  return networkServicePlan(factsOf(change)).slices.map(({ ports = [], endpoints = [] }) => [
    ports.map(({ port }) => port),
    endpoints.map(({ addresses, conditions }) => [addresses[0], conditions?.ready]),
  ]);
}

const READY = [[[8080], [["10.77.1.5", true]]]];
const UNREADY = [[[8080], [["10.77.1.5", false]]]];

describe("slices", () => {
  test("contain the VM's addresses on the network", () => {
    const spec = { subdomain: "web", hostname: "alpha" };
    const vmis = [aServedVmi("vm1", ["10.77.1.5"], { spec })];
    expect(networkServicePlan(factsOf({ vmis }))).toEqual({
      slices: [
        {
          apiVersion: "discovery.k8s.io/v1",
          kind: "EndpointSlice",
          metadata: {
            name: expect.stringMatching(/^web-[0-9a-f]{10}-0$/) as string,
            namespace: "default",
            labels: {
              "kubernetes.io/service-name": "web",
              "endpointslice.kubernetes.io/managed-by": "virt-controller.patchbay.io",
            },
            ownerReferences: [
              {
                apiVersion: "v1",
                kind: "Service",
                name: "web",
                uid: "service-uid",
                controller: true,
              },
            ],
          },
          addressType: "IPv4",
          ports: [{ name: "", port: 8080, protocol: "TCP" }],
          endpoints: [
            {
              addresses: ["10.77.1.5"],
              conditions: { ready: true, serving: true, terminating: false },
              hostname: "alpha",
              nodeName: "node1",
              targetRef: {
                kind: "VirtualMachineInstance",
                namespace: "default",
                name: "vm1",
                uid: "vm1-uid",
              },
            },
          ],
        },
      ],
    });
  });

  test("contain several VMs and both address families", () => {
    const vmis = [
      aServedVmi("vm1", ["10.77.1.5", "fd77::5"]),
      aServedVmi("vm2", ["FD77:0::6", "10.77.1.6"]),
    ];
    expect(shown({ vmis })).toEqual([
      [
        [8080],
        [
          ["10.77.1.5", true],
          ["10.77.1.6", true],
        ],
      ],
      [
        [8080],
        [
          ["fd77::5", true],
          ["fd77::6", true],
        ],
      ],
    ]);
  });

  test("change only with the addresses", () => {
    const now = factsOf({ vmis: [aServedVmi("vm1", ["10.77.1.9"])] });
    expect(networkServicePlan(now)).not.toEqual(networkServicePlan(factsOf()));
    expect(networkServicePlan(factsOf())).toEqual(networkServicePlan(factsOf()));
  });
});

describe("the endpoints of a VM", () => {
  const rows: readonly [string, Parameters<typeof aServedVmi>[2], unknown][] = [
    ["that is ready", {}, READY],
    ["that is not", { status: { conditions: [{ type: "Ready", status: "False" }] } }, UNREADY],
    ["that says nothing of it", { status: { conditions: [] } }, UNREADY],
    ["that goes", { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } }, UNREADY],
    [
      "whose NIC is on its way",
      { iface: { hotplug: { type: "Plug", phase: "Attaching" } } },
      UNREADY,
    ],
    ["whose NIC goes", { iface: { hotplug: { type: "Unplug", phase: "Detaching" } } }, UNREADY],
    ["whose NIC has no link", { iface: { linkState: "down" } }, UNREADY],
    ["whose NIC hangs on another NIC of the pod", { iface: { podInterfaceName: "x" } }, UNREADY],
    ["of whose NIC the node has said nothing", { status: { interfaces: [] } }, UNREADY],
    ["that has ended", { status: { phase: "Failed" } }, []],
    ["without the label", { metadata: { labels: { app: "db" } } }, []],
    ["without labels", { metadata: { labels: {} } }, []],
    ["of another namespace", { metadata: { namespace: "red" } }, []],
    ["on another network", { attachment: { networkName: "default/red" } }, []],
    ["whose NIC in the pod goes", { attachment: { state: "Removing" } }, []],
    ["that has no addresses yet", { attachment: { ips: [] } }, []],
  ];
  test.each(rows)("%s", (_name, change, want) => {
    expect(shown({ vmis: [aServedVmi("vm1", ["10.77.1.5"], change)] })).toEqual(want);
  });

  test("does not use addresses that only the guest reports", () => {
    const iface = { ipAddress: "10.77.1.66", ipAddresses: ["10.77.1.66", "192.0.2.1"] };
    expect(shown({ vmis: [aServedVmi("vm1", ["10.77.1.5"], { iface })] })).toEqual(READY);
    expect(shown({ vmis: [aServedVmi("vm1", [], { iface })] })).toEqual([]);
  });

  test("are ready if the Service publishes addresses that are not ready", () => {
    const vmis = [aServedVmi("vm1", ["10.77.1.5"], { status: { conditions: [] } })];
    const service = aNetworkService({ publishNotReadyAddresses: true });
    expect(shown({ vmis, service })).toEqual(READY);
  });
});

describe("ports", () => {
  function serving(name: string, ip: string, port: number): VirtualMachineInstance {
    const devices = { interfaces: [{ name: "nic", bridge: {}, ports: [{ name: "http", port }] }] };
    return aServedVmi(name, [ip], { spec: { domain: { devices } } });
  }

  test("equal the Service's ports unless targetPort is set", () => {
    const service = aNetworkService({ ports: [{ port: 80 }] });
    expect(shown({ service })).toEqual([[[80], [["10.77.1.5", true]]]]);
  });

  test("with names are resolved per VM interface; VMs without the port are omitted", () => {
    const service = aNetworkService({ ports: [{ port: 80, targetPort: "http" }] });
    const vmis = [
      serving("vm1", "10.77.1.5", 8080),
      serving("vm2", "10.77.1.6", 9090),
      aServedVmi("vm3", ["10.77.1.7"]),
    ];
    expect(shown({ service, vmis })).toEqual([
      [[8080], [["10.77.1.5", true]]],
      [[9090], [["10.77.1.6", true]]],
    ]);
  });

  test("with names are resolved by protocol", () => {
    const ports = [{ port: 80, protocol: "UDP", targetPort: "http" }];
    const vmis = [serving("vm1", "10.77.1.5", 8080)];
    expect(shown({ service: aNetworkService({ ports }), vmis })).toEqual([]);
  });

  test("are optional for a headless Service", () => {
    expect(shown({ service: aNetworkService({ clusterIP: "None", ports: [] }) })).toEqual([
      [[], [["10.77.1.5", true]]],
    ]);
  });
});

describe("creates no slices and reports why if", () => {
  const rows: readonly [string, Partial<NetworkServiceFacts>, RegExp][] = [
    ["there is no definition", { definition: undefined }, /no NetworkAttachmentDefinition default/],
    ["the definition is a tenant's", { trustedNamespaces: ["admins"] }, /tenant's.*admins/],
    [
      "it does not say which addresses it gives",
      { definition: aBlueDefinition({ ipam: { type: "dhcp" } }) },
      /does not name the subnet of its addresses/,
    ],
    [
      "the selector cannot be read",
      { service: aNetworkService({}, { [names.SERVICE_SELECTOR_ANNOTATION]: "(" }) },
      /KEY=VALUE/,
    ],
  ];
  test.each(rows)("%s", (_name, change, text) => {
    const { slices, refusal } = networkServicePlan(factsOf(change));
    expect(slices).toEqual([]);
    expect(refusal).toMatch(text);
  });

  test("reports nothing without a request", () => {
    const service = { ...aNetworkService(), metadata: { name: "web", namespace: "default" } };
    expect(networkServicePlan(factsOf({ service }))).toEqual({ slices: [] });
  });
});

test.each([
  "10.77.2.5",
  "192.0.2.1",
  "fd78::1",
  "::ffff:10.77.1.5",
  "10.77.1.5/24x",
  "10.77.1.5 . 22 }; delete table ip nat; #",
  "",
])("omits an address outside the network's subnet: %j", (ip) => {
  expect(shown({ vmis: [aServedVmi("vm1", [ip, "10.77.1.5"])] })).toEqual(READY);
});

test.each(["127.0.0.1", "169.254.169.254", "224.0.0.1", "fe80::1", "::1", "ff02::1"])(
  "omits a special address of any network: %s",
  (ip) => {
    const definition = aBlueDefinition({
      ipam: { ranges: [{ subnet: "0.0.0.0/0" }, { subnet: "::/0" }] },
    });
    expect(shown({ definition, vmis: [aServedVmi("vm1", [ip, "10.77.1.5"])] })).toEqual(READY);
  },
);

test("learned addresses are no endpoints of a network without addresses of CNI", () => {
  const iface = {
    ipAddresses: ["10.77.1.5"],
    addressInfo: { source: "learned" as const, since: "" },
  };
  const { slices } = networkServicePlan(factsOf({ vmis: [aServedVmi("vm1", [], { iface })] }));
  expect(slices.flatMap((slice) => slice.endpoints ?? [])).toEqual([]);
});

test.each([
  { name: "no report yet", iface: {}, want: ["10.77.1.5", "10.77.1.6"] },
  {
    name: "learned addresses, which confirm nothing",
    iface: {
      ipAddresses: ["10.77.1.66"],
      addressInfo: { source: "learned" as const, since: "" },
    },
    want: ["10.77.1.5", "10.77.1.6"],
  },
  {
    name: "only the first address, which DHCP assigns",
    iface: { ipAddresses: ["10.77.1.5"], addressInfo: { source: "pod" as const, since: "" } },
    want: ["10.77.1.5"],
  },
  {
    name: "the second address, and an address outside CNI's",
    iface: {
      ipAddresses: ["10.77.1.6", "10.77.1.66"],
      addressInfo: { source: "guest-agent" as const, since: "" },
    },
    want: ["10.77.1.6"],
  },
  {
    name: "no addresses in the guest",
    iface: { addressInfo: { source: "guest-agent" as const, since: "" } },
    want: [],
  },
])("only addresses that the guest has become endpoints: $name", ({ iface, want }) => {
  const vmi = aServedVmi("vm1", ["10.77.1.5/16", "10.77.1.6/16"], { iface });
  const { slices } = networkServicePlan(factsOf({ vmis: [vmi] }));
  const endpoints = slices.flatMap((slice) => slice.endpoints ?? []);
  expect(endpoints.flatMap(({ addresses }) => addresses)).toEqual(want);
  const before = aServedVmi("vm1", ["10.77.1.5/16", "10.77.1.6/16"]);
  const isSame = want.length === 2;
  expect(isEqual(listServiceInputs(vmi), listServiceInputs(before))).toBe(isSame);
});

describe("the inputs of slices", () => {
  const before = aServedVmi("vm1", ["10.77.1.5"]);
  test("do not change with other fields", () => {
    const now = aServedVmi("vm1", ["10.77.1.5"], {
      metadata: { resourceVersion: "9", annotations: { a: "b" } },
      iface: { ipAddress: "10.77.1.66", mtu: 9000 },
    });
    expect(listServiceInputs(now)).toEqual(listServiceInputs(before));
  });

  test.each([
    { name: "a changed address", now: aServedVmi("vm1", ["10.77.1.6"]) },
    {
      name: "a changed link",
      now: aServedVmi("vm1", ["10.77.1.5"], { iface: { linkState: "down" } }),
    },
    {
      name: "an ended guest",
      now: aServedVmi("vm1", ["10.77.1.5"], { status: { phase: "Succeeded" } }),
    },
    {
      name: "a changed label",
      now: aServedVmi("vm1", ["10.77.1.5"], { metadata: { labels: {} } }),
    },
  ])("change with $name", ({ now }) => {
    expect(listServiceInputs(now)).not.toEqual(listServiceInputs(before));
  });
});
