// SPDX-License-Identifier: Apache-2.0
import {
  names,
  type Attachment,
  type NetworkAttachmentDefinition,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { NetworkPolicy } from "@patchbay/api/kubernetes";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import {
  appliesPolicies,
  listPolicyNetworks,
  planNetworkPolicies,
  toPolicyVm,
  trimPolicyVm,
  type PlannedNetworks,
  type PolicyVm,
} from "./multi-policy.ts";

type Spec = NonNullable<NetworkPolicy["spec"]>;

function aVm(name: string, options: Partial<PolicyVm> = {}): PolicyVm {
  return {
    namespace: "blue",
    name,
    uid: name,
    labels: {},
    namedPorts: [],
    addresses: {},
    ...options,
  };
}

const OWN = aVm("own", {
  labels: { app: "db" },
  addresses: { "blue/lan": ["10.1.0.1"], "infra/wan": ["10.2.0.1"] },
});
const VMS = [
  OWN,
  aVm("near", { labels: { app: "web" }, addresses: { "blue/lan": ["10.1.0.2", "fd01::2"] } }),
  aVm("far", {
    namespace: "red",
    labels: { app: "web" },
    addresses: { "infra/wan": ["10.2.0.3"], "red/lan": ["10.1.0.3"] },
    namedPorts: [{ name: "http", protocol: "TCP", port: 8080 }],
  }),
  aVm("silent", { labels: { app: "silent" }, addresses: { "blue/lan": [] } }),
];

function aPolicy(name: string, networks: string | undefined, spec: Spec): NetworkPolicy {
  const annotations = networks === undefined ? {} : { [names.POLICY_FOR_ANNOTATION]: networks };
  return {
    apiVersion: "k8s.cni.cncf.io/v1beta1",
    kind: "MultiNetworkPolicy",
    metadata: { name, namespace: "blue", annotations },
    spec,
  };
}

function plan(...policies: readonly NetworkPolicy[]): PlannedNetworks {
  return planNetworkPolicies({
    vm: OWN,
    policies,
    vms: VMS,
    findNamespaceLabels: (name) => ({ team: name }),
    isGuarded: (network) => network === "infra/ovn",
  });
}

const ALL: Spec = { podSelector: {} };
const FROM_WEB: Spec = {
  ...ALL,
  ingress: [{ from: [{ podSelector: { matchLabels: { app: "web" } }, namespaceSelector: {} }] }],
};

describe("a policy for networks", () => {
  test.each<{
    name: string;
    given: readonly NetworkPolicy[];
    want: PlannedNetworks["policies"];
  }>([
    {
      name: "without an annotation applies nowhere",
      given: [aPolicy("p", undefined, ALL)],
      want: {},
    },
    { name: "without names applies nowhere", given: [aPolicy("p", " , ", ALL)], want: {} },
    {
      name: "of other VMs applies nowhere",
      given: [aPolicy("p", "lan", { podSelector: { matchLabels: { app: "web" } } })],
      want: {},
    },
    {
      name: "applies to each network that it names, in its namespace without another",
      given: [aPolicy("p", "lan, infra/wan", ALL)],
      want: { "blue/lan": { ingress: [] }, "infra/wan": { ingress: [] } },
    },
    {
      name: "allows VMs by their addresses on the same network",
      given: [aPolicy("p", "lan,infra/wan", FROM_WEB)],
      want: {
        "blue/lan": { ingress: [{ peers: ["10.1.0.2", "fd01::2"] }] },
        "infra/wan": { ingress: [{ peers: ["10.2.0.3"] }] },
      },
    },
    {
      name: "does not add to a policy for another network",
      given: [
        aPolicy("p", "lan", { ...ALL, ingress: [{ ports: [{ port: 1 }] }] }),
        aPolicy("q", "infra/wan", { ...ALL, policyTypes: ["Egress"] }),
      ],
      want: {
        "blue/lan": { ingress: [{ ports: [{ protocol: "tcp", first: 1, last: 1 }] }] },
        "infra/wan": { egress: [] },
      },
    },
    {
      name: "adds to another policy for the same network",
      given: [
        aPolicy("p", "lan", {
          ...ALL,
          ingress: [{ from: [{ ipBlock: { cidr: "10.9.0.0/31" } }] }],
        }),
        aPolicy("q", "blue/lan", ALL),
      ],
      want: { "blue/lan": { ingress: [{ peers: ["10.9.0.0-10.9.0.1"] }] } },
    },
    {
      name: "resolves named ports at VMs on the network",
      given: [
        aPolicy("p", "lan,infra/wan", {
          ...ALL,
          policyTypes: ["Egress"],
          egress: [{ ports: [{ port: "http" }] }],
        }),
      ],
      want: {
        "blue/lan": { egress: [] },
        "infra/wan": {
          egress: [{ peers: ["10.2.0.3"], ports: [{ protocol: "tcp", first: 8080, last: 8080 }] }],
        },
      },
    },
    {
      name: "is left to the plugin of a network that applies policies",
      given: [aPolicy("p", "infra/ovn,lan", ALL)],
      want: { "blue/lan": { ingress: [] } },
    },
  ])("$name", ({ given, want }) => {
    expect(plan(...given).policies).toEqual(want);
  });

  test("beyond a limit allows nothing, and is reported with its network", () => {
    const large = { ...ALL, ingress: Array.from({ length: 65 }, () => ({})) };
    expect(plan(aPolicy("p", "lan", large))).toEqual({
      policies: { "blue/lan": { ingress: [] } },
      oversized: [{ policy: "p", network: "blue/lan" }],
      unmatched: [],
    });
  });

  test.each<{ name: string; spec: Spec; want: readonly string[] }>([
    { name: "whose selectors match VMs", spec: FROM_WEB, want: [] },
    { name: "without selectors", spec: { ...ALL, ingress: [{}] }, want: [] },
    {
      name: "whose selectors match no VM",
      spec: { ...ALL, ingress: [{}, { from: [{ podSelector: { matchLabels: { app: "pod" } } }] }] },
      want: ["blue/lan"],
    },
    {
      name: "whose selectors match only VMs without addresses",
      spec: {
        ...ALL,
        egress: [
          {
            to: [
              { podSelector: { matchLabels: { app: "silent" } } },
              { ipBlock: { cidr: "10.0.0.0/8" } },
            ],
          },
        ],
      },
      want: ["blue/lan"],
    },
    {
      name: "with such a rule for a direction that it does not isolate",
      spec: {
        ...ALL,
        policyTypes: ["Egress"],
        ingress: [{ from: [{ podSelector: { matchLabels: { app: "pod" } } }] }],
      },
      want: [],
    },
  ])("$name is reported on $want", ({ spec, want }) => {
    expect(plan(aPolicy("p", "lan", spec)).unmatched).toEqual(
      want.map((network) => ({ policy: "p", network })),
    );
  });
});

test.each([
  ["lan", ["blue/lan"]],
  [" lan ,infra/wan,,", ["blue/lan", "infra/wan"]],
  ["", []],
])("the networks of %j are %j", (text, want) => {
  expect(listPolicyNetworks(aPolicy("p", text, ALL))).toEqual(want);
});

describe("a VM", () => {
  const attachments: readonly Attachment[] = [
    {
      name: "default",
      networkName: "infra/pods",
      podInterfaceName: "eth0",
      state: "Attached",
      ips: ["10.0.0.1"],
    },
    {
      name: "one",
      networkName: "blue/lan",
      podInterfaceName: "p1",
      state: "Attached",
      ips: ["10.1.0.1", "x"],
    },
    {
      name: "two",
      networkName: "blue/lan",
      podInterfaceName: "p2",
      state: "Attached",
      ips: ["10.1.0.2"],
    },
    {
      name: "three",
      networkName: "blue/wan",
      podInterfaceName: "p3",
      state: "Failed",
      ips: ["10.2.0.1"],
    },
    { name: "four", networkName: "blue/l2", podInterfaceName: "p4", state: "Attached" },
  ];
  const base = aVmi({ nics: [{ name: "one" }, { name: "two" }] });
  const vmi: VirtualMachineInstance = {
    ...base,
    metadata: {
      ...base.metadata,
      uid: "u",
      labels: { app: "db" },
      annotations: {
        [names.NETWORK_STATUS_ANNOTATION]: '[{"name":"blue/lan","ips":["10.1.0.9"]}]',
      },
    },
    spec: {
      ...base.spec,
      networks: [
        { name: "default", multus: { networkName: "infra/pods", default: true } },
        ...(base.spec.networks ?? []),
      ],
      domain: {
        devices: {
          interfaces: [
            { name: "one", bridge: {}, ports: [{ name: "web", port: 80 }, { port: 81 }] },
          ],
        },
      },
    },
    status: { phase: "Running", attachments: [...attachments], guestOSInfo: { name: "Debian" } },
  };

  test("has the addresses of its status on secondary networks, and its pod's labels and ports", () => {
    expect(toPolicyVm(vmi)).toEqual({
      namespace: "default",
      name: "vm1",
      uid: "u",
      labels: {
        app: "db",
        [names.KUBEVIRT_LABEL]: names.LAUNCHER_LABEL_VALUE,
        [names.CREATED_BY_LABEL]: "u",
        [names.VM_NAME_LABEL]: "vm1",
      },
      namedPorts: [{ name: "web", protocol: "TCP", port: 80 }],
      addresses: { "blue/lan": ["10.1.0.1", "10.1.0.2"], "blue/l2": [] },
    });
  });

  test("that has ended is none", () => {
    expect(toPolicyVm({ ...vmi, status: { ...vmi.status, phase: "Succeeded" } })).toBeUndefined();
  });

  test("is the same after its other fields are dropped", () => {
    const trimmed = trimPolicyVm(vmi);
    expect(toPolicyVm(trimmed)).toEqual(toPolicyVm(vmi));
    expect(trimmed.status).toEqual({ phase: "Running", attachments });
    expect(trimmed.metadata).not.toHaveProperty("annotations");
  });

  test("affects policies by its addresses and labels only", () => {
    const changed = (status: object): PolicyVm | undefined =>
      toPolicyVm({ ...vmi, status: { ...vmi.status, ...status } });
    expect(changed({ guestOSInfo: { name: "Fedora" } })).toEqual(toPolicyVm(vmi));
    expect(changed({ attachments: attachments.slice(0, 2) })).not.toEqual(toPolicyVm(vmi));
  });
});

test.each([
  ['{"type":"ovn-k8s-cni-overlay"}', true],
  ['{"plugins":[{"type":"kube-ovn"},{"type":"portmap"}]}', true],
  ['{"plugins":[{"type":"cilium-cni"}]}', true],
  ['{"plugins":[{"type":"bridge"}]}', false],
  ['{"plugins":"kube-ovn"}', false],
  ["{", false],
  [undefined, false],
])("the plugin of %j applies policies itself: %s", (config, want) => {
  const nad: NetworkAttachmentDefinition = {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name: "n" },
    spec: { ...(config !== undefined && { config }) },
  };
  expect(appliesPolicies(nad)).toBe(want);
});
