// SPDX-License-Identifier: Apache-2.0
import type { NetworkPolicy, Pod, PolicyPeer } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { planPodPolicy, type PlannedPolicy } from "./pod-policy.ts";
import { isSelectedBy, matchesLabels, toPolicyPod, type PolicyPod } from "./policy-pods.ts";
import { listBlockRanges, printRanges } from "./ranges.ts";

type Spec = NonNullable<NetworkPolicy["spec"]>;

function aPod(name: string, options: Partial<PolicyPod> = {}): PolicyPod {
  return {
    namespace: "blue",
    name,
    uid: name,
    labels: {},
    addresses: [],
    namedPorts: [],
    ...options,
  };
}

const OWN = aPod("own", {
  labels: { app: "db" },
  addresses: ["10.0.0.1", "fd00::1"],
  namedPorts: [
    { name: "web", protocol: "TCP", port: 80 },
    { name: "dns", protocol: "UDP", port: 53 },
  ],
});
const PODS = [
  OWN,
  aPod("near", {
    labels: { app: "web" },
    addresses: ["10.0.0.2", "fd00::2"],
    namedPorts: [{ name: "web", protocol: "TCP", port: 8080 }],
  }),
  aPod("far", {
    namespace: "red",
    labels: { app: "web" },
    addresses: ["10.0.0.3"],
    namedPorts: [{ name: "web", protocol: "TCP", port: 80 }],
  }),
  aPod("stray", { namespace: "gone", labels: { app: "web" }, addresses: ["10.0.0.4"] }),
];
const NAMESPACE_LABELS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  blue: { team: "blue" },
  red: { team: "red" },
};

function plan(...specs: readonly Spec[]): PlannedPolicy {
  const policies = specs.map((spec, index) => ({
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: `p${String(index)}`, namespace: "blue" },
    spec,
  }));
  const findNamespaceLabels = (name: string) => NAMESPACE_LABELS[name];
  return planPodPolicy({ pod: OWN, policies, pods: PODS, findNamespaceLabels });
}

/** Plans one policy for all pods whose ingress rule has these peers. */
function peersOf(...from: readonly PolicyPeer[]): readonly string[] {
  const { policy } = plan({ podSelector: {}, ingress: [{ from }] });
  return (policy?.ingress ?? []).flatMap(({ peers = [] }) => peers);
}

describe("a policy", () => {
  test.each<{ name: string; specs: readonly Spec[]; want: PlannedPolicy["policy"] }>([
    {
      name: "of other pods restricts nothing",
      specs: [{ podSelector: { matchLabels: { app: "x" } } }],
      want: undefined,
    },
    { name: "without rules isolates ingress", specs: [{ podSelector: {} }], want: { ingress: [] } },
    {
      name: "with egress rules isolates egress too",
      specs: [{ podSelector: {}, egress: [{}] }],
      want: { ingress: [], egress: [{}] },
    },
    {
      name: "isolates the directions of policyTypes",
      specs: [{ podSelector: {}, policyTypes: ["Egress"] }],
      want: { egress: [] },
    },
    {
      name: "ignores rules of directions that policyTypes omits",
      specs: [{ podSelector: {}, policyTypes: ["Ingress"], egress: [{}] }],
      want: { ingress: [] },
    },
    {
      name: "without peers and ports in a rule allows all",
      specs: [{ podSelector: {}, ingress: [{ from: [], ports: [] }] }],
      want: { ingress: [{}] },
    },
    {
      name: "adds to other policies",
      specs: [
        { podSelector: {}, ingress: [{ ports: [{ port: 1 }] }] },
        { podSelector: {}, ingress: [{ ports: [{ port: 2, protocol: "UDP" }] }] },
        { podSelector: {} },
      ],
      want: {
        ingress: [
          { ports: [{ protocol: "tcp", first: 1, last: 1 }] },
          { ports: [{ protocol: "udp", first: 2, last: 2 }] },
        ],
      },
    },
    {
      name: "merges ports, and knows ranges, all ports and named ports",
      specs: [
        {
          podSelector: {},
          ingress: [
            {
              ports: [
                { port: 90, endPort: 95 },
                { port: 92, endPort: 99 },
                { port: "web" },
                { port: "dns", protocol: "UDP" },
                { protocol: "SCTP" },
              ],
            },
          ],
        },
      ],
      want: {
        ingress: [
          {
            ports: [
              { protocol: "tcp", first: 80, last: 80 },
              { protocol: "tcp", first: 90, last: 99 },
              { protocol: "udp", first: 53, last: 53 },
              { protocol: "sctp", first: 0, last: 65_535 },
            ],
          },
        ],
      },
    },
    {
      name: "allows nothing by ports that are missing or invalid",
      specs: [
        {
          podSelector: {},
          ingress: [
            {
              ports: [
                { port: "missing" },
                { port: "dns" },
                { port: 9, endPort: 8 },
                { port: 70_000 },
                { port: -1 },
                { port: 5, protocol: "GRE" },
              ],
            },
          ],
        },
      ],
      want: { ingress: [] },
    },
    {
      name: "resolves named ports of egress at each peer",
      specs: [
        {
          podSelector: {},
          policyTypes: ["Egress"],
          egress: [
            {
              to: [{ namespaceSelector: {}, podSelector: { matchLabels: { app: "web" } } }],
              ports: [{ port: "web" }],
            },
          ],
        },
      ],
      want: {
        egress: [
          { peers: ["10.0.0.3"], ports: [{ protocol: "tcp", first: 80, last: 80 }] },
          { peers: ["10.0.0.2", "fd00::2"], ports: [{ protocol: "tcp", first: 8080, last: 8080 }] },
        ],
      },
    },
    {
      name: "allows named ports of all known pods without peers",
      specs: [
        {
          podSelector: {},
          policyTypes: ["Egress"],
          egress: [{ ports: [{ port: "web" }, { port: 443 }] }],
        },
      ],
      want: {
        egress: [
          { ports: [{ protocol: "tcp", first: 443, last: 443 }] },
          {
            peers: ["10.0.0.1", "10.0.0.3", "fd00::1"],
            ports: [{ protocol: "tcp", first: 80, last: 80 }],
          },
          { peers: ["10.0.0.2", "fd00::2"], ports: [{ protocol: "tcp", first: 8080, last: 8080 }] },
        ],
      },
    },
  ])("$name", ({ specs, want }) => {
    expect(plan(...specs)).toEqual({ oversized: [], ...(want && { policy: want }) });
  });
});

describe("the peers of a rule", () => {
  const web = { matchLabels: { app: "web" } };
  test.each<{ name: string; peers: readonly PolicyPeer[]; want: readonly string[] }>([
    {
      name: "all pods of the namespace",
      peers: [{ podSelector: {} }],
      want: ["10.0.0.1-10.0.0.2", "fd00::1-fd00::2"],
    },
    {
      name: "pods of the namespace by labels",
      peers: [{ podSelector: web }],
      want: ["10.0.0.2", "fd00::2"],
    },
    {
      name: "all pods of namespaces, but not of unknown namespaces",
      peers: [{ namespaceSelector: {} }],
      want: ["10.0.0.1-10.0.0.3", "fd00::1-fd00::2"],
    },
    {
      name: "pods that match both selectors",
      peers: [{ namespaceSelector: { matchLabels: { team: "red" } }, podSelector: web }],
      want: ["10.0.0.3"],
    },
    {
      name: "pods of either of two peers",
      peers: [{ namespaceSelector: { matchLabels: { team: "red" } } }, { podSelector: web }],
      want: ["10.0.0.2-10.0.0.3", "fd00::2"],
    },
    {
      name: "a block without exceptions that overlap in any order",
      peers: [
        {
          ipBlock: {
            cidr: "10.1.0.0/24",
            except: ["10.1.0.64/26", "10.1.0.0/30", "10.1.0.0/28", "10.1.0.16/28", "10.1.0.128/25"],
          },
        },
      ],
      want: ["10.1.0.32-10.1.0.63"],
    },
    {
      name: "a block without its exceptions",
      peers: [{ ipBlock: { cidr: "10.1.0.0/16", except: ["10.1.2.0/24", "10.1.255.0/24"] } }],
      want: ["10.1.0.0-10.1.1.255", "10.1.3.0-10.1.254.255"],
    },
    {
      name: "an IPv6 block",
      peers: [{ ipBlock: { cidr: "fd01::/64", except: ["fd01::/65"] } }],
      want: ["fd01::8000:0:0:0-fd01::ffff:ffff:ffff:ffff"],
    },
    { name: "none for an invalid block", peers: [{ ipBlock: { cidr: "10.0.0.0/40" } }], want: [] },
    {
      name: "none for an invalid exception",
      peers: [{ ipBlock: { cidr: "10.0.0.0/8", except: ["x"] } }],
      want: [],
    },
    { name: "none for an empty peer", peers: [{}], want: [] },
  ])("are $name", ({ peers, want }) => {
    expect(peersOf(...peers)).toEqual(want);
  });
});

describe("a policy beyond a limit", () => {
  const blocks = (count: number): readonly PolicyPeer[] =>
    Array.from({ length: count }, (_, index) => ({
      ipBlock: { cidr: `10.${String(index >> 8)}.${String(index & 255)}.0/32` },
    }));
  test.each<{ name: string; spec: Spec }>([
    { name: "rules", spec: { podSelector: {}, ingress: Array.from({ length: 65 }, () => ({})) } },
    { name: "peers", spec: { podSelector: {}, ingress: [{ from: blocks(1025) }] } },
    {
      name: "ports",
      spec: {
        podSelector: {},
        ingress: [{ ports: Array.from({ length: 257 }, (_, port) => ({ port: port * 2 })) }],
      },
    },
  ])("of $name allows nothing, and the others still apply", ({ spec }) => {
    expect(plan(spec, { podSelector: {}, ingress: [{ ports: [{ port: 1 }] }] })).toEqual({
      policy: { ingress: [{ ports: [{ protocol: "tcp", first: 1, last: 1 }] }] },
      oversized: ["p0"],
    });
  });

  test("of policies for one pod isolates the pod", () => {
    const specs = Array.from({ length: 33 }, () => ({ podSelector: {}, ingress: [{}] }));
    const { policy, oversized } = plan(...specs);
    expect([policy?.ingress?.length, oversized]).toEqual([32, ["p32"]]);
  });

  test("is not reached by large, but valid policies", () => {
    const { policy, oversized } = plan({ podSelector: {}, ingress: [{ from: blocks(1024) }] });
    expect([policy?.ingress?.[0]?.peers?.length, oversized]).toEqual([1024, []]);
  });
});

test.each([
  [{}, true],
  [{ matchLabels: { app: "db" } }, true],
  [{ matchLabels: { app: "web" } }, false],
  [{ matchExpressions: [{ key: "app", operator: "In", values: ["db", "web"] }] }, true],
  [{ matchExpressions: [{ key: "zone", operator: "In", values: [] }] }, false],
  [{ matchExpressions: [{ key: "app", operator: "NotIn", values: ["db"] }] }, false],
  [{ matchExpressions: [{ key: "zone", operator: "NotIn", values: ["a"] }] }, true],
  [{ matchExpressions: [{ key: "app", operator: "Exists" }] }, true],
  [{ matchExpressions: [{ key: "zone", operator: "Exists" }] }, false],
  [{ matchExpressions: [{ key: "app", operator: "DoesNotExist" }] }, false],
  [{ matchExpressions: [{ key: "zone", operator: "DoesNotExist" }] }, true],
  [{ matchExpressions: [{ key: "app", operator: "Like", values: ["db"] }] }, false],
])("%j selects the labels: %s", (selector, want) => {
  expect(matchesLabels(selector, { app: "db" })).toBe(want);
});

test("a policy selects only pods of its namespace", () => {
  const policy = { apiVersion: "", kind: "", metadata: { name: "p", namespace: "red" }, spec: {} };
  expect(PODS.filter((pod) => isSelectedBy(policy, pod)).map(({ name }) => name)).toEqual(["far"]);
});

describe("a pod", () => {
  const pod: Pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", namespace: "blue", uid: "u" },
    spec: {
      containers: [
        { name: "c", image: "", ports: [{ containerPort: 1 }, { name: "web", containerPort: 2 }] },
      ],
    },
    status: {
      phase: "Running",
      podIP: "10.0.0.9",
      podIPs: [{ ip: "10.0.0.9" }, { ip: "fd00::9" }],
    },
  };

  test("has all its addresses and its named ports", () => {
    expect(toPolicyPod(pod)).toEqual({
      namespace: "blue",
      name: "p",
      uid: "u",
      labels: {},
      addresses: ["10.0.0.9", "fd00::9"],
      namedPorts: [{ name: "web", protocol: "TCP", port: 2 }],
    });
  });

  test("without an address of its own is none", () => {
    expect(toPolicyPod({ ...pod, status: { phase: "Succeeded" } })).toBeUndefined();
    expect(toPolicyPod({ ...pod, spec: { ...pod.spec, hostNetwork: true } })).toBeUndefined();
    expect(toPolicyPod({ ...pod, status: { phase: "Pending" } })?.addresses).toEqual([]);
  });
});

test("exceptions of another IP version do not change a block", () => {
  expect(printRanges(listBlockRanges("10.0.0.0/31", ["fd00::/8"]))).toEqual(["10.0.0.0-10.0.0.1"]);
});
