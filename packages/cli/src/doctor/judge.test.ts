// SPDX-License-Identifier: Apache-2.0
import { parseTime, printTime } from "@patchbay/kube";
import { describe, expect, test } from "vitest";
import { names, type VirtualMachineInstance } from "@patchbay/api";
import type { KubeEvent, KubeNode, Lease, Pod } from "@patchbay/api/kubernetes";
import { healthyFacts, trialWith } from "./testing.ts";
import type { Facts } from "./facts.ts";
import { judgeNetworks } from "./checks/networks.ts";
import { judgeNodes } from "./checks/nodes.ts";
import { judgeInstallation } from "./judge.ts";

const HEALTHY = healthyFacts();

function at(seconds: number): string {
  return printTime(HEALTHY.nowMs + seconds * 1000);
}

function wrongOf(facts: Facts): readonly string[] {
  return judgeInstallation(facts)
    .filter(({ verdict }) => verdict === "wrong")
    .map(({ check, message }) => `${check}: ${message}`);
}

function nodeWith(more: Partial<NonNullable<KubeNode["status"]>>): Facts["nodes"] {
  const [node] = "value" in HEALTHY.nodes ? HEALTHY.nodes.value : [];
  if (node === undefined) throw new Error("there is a node");
  return { value: [{ ...node, status: { ...node.status, ...more } }] };
}

function leaseOf(name: string, spec: NonNullable<Lease["spec"]>): Lease {
  return { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name }, spec };
}

function vmiOf(uid: string, deletionTimestamp?: string): VirtualMachineInstance {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: {
      namespace: "blue",
      name: "one",
      uid,
      ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    },
    spec: { domain: { devices: {} } },
    status: { nodeName: "n1" },
  };
}

function launcherOf(uid: string, creationTimestamp: string): Pod {
  const labels = { [names.CREATED_BY_LABEL]: uid };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: "blue", name: "virt-launcher-one", labels, creationTimestamp },
    spec: { containers: [] },
    status: { phase: "Running" },
  };
}

test("reports ok for every check of a healthy installation", () => {
  const verdicts = new Set(judgeInstallation(HEALTHY).map(({ verdict }) => verdict));
  expect([...verdicts]).toEqual(["ok"]);
});

test("every fault has a fix", () => {
  const broken: Facts = {
    ...HEALTHY,
    serverVersion: { value: "v1.25.3" },
    nodes: { value: [] },
    deployments: { value: [] },
    leader: { value: undefined },
  };
  const wrong = judgeInstallation(broken).filter(({ verdict }) => verdict === "wrong");
  expect(wrong).toHaveLength(4);
  expect(wrong.every(({ fix = "" }) => fix !== "")).toBe(true);
});

test("reports unknown instead of wrong for forbidden requests", () => {
  const failure = { failure: "nodes is forbidden" };
  const findings = judgeInstallation({
    ...HEALTHY,
    nodes: failure,
    webhooks: failure,
    trial: failure,
  });
  expect(findings.filter(({ verdict }) => verdict === "wrong")).toEqual([]);
  expect(findings).toContainEqual({ check: "nodes", verdict: "unknown", message: failure.failure });
});

describe("a network that net-agent tolerates against the tenant policy", () => {
  const reason = "DefinitionTolerated";
  const message = "bridge br1 is the node's own";
  const network = {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { namespace: "blue", name: "fast", uid: "u1" },
  };
  const event: KubeEvent = {
    apiVersion: "v1",
    kind: "Event",
    metadata: { namespace: "blue", name: "e" },
    involvedObject: { kind: network.kind, namespace: "blue", name: "fast", uid: "u1" },
    type: "Warning",
    reason,
    message,
    lastTimestamp: "2026-01-01T00:00:00Z",
    source: { component: "net-agent", host: "n1" },
  };
  const api = (served: readonly string[]) => [
    { groupVersion: "k8s.cni.cncf.io/v1", resources: [], served: { value: served } },
  ];

  test.each([
    {
      name: "is a warning by its status",
      facts: {
        networks: {
          value: [
            { ...network, status: { problems: [{ node: "n1", reason, message, generation: 1 }] } },
          ],
        },
      },
      want: [`warning DefinitionTolerated on node n1: ${message}`],
    },
    {
      name: "is a warning by its event if the kind has no status",
      facts: {
        apis: api(["network-attachment-definitions"]),
        networks: { value: [network] },
        networkEvents: {
          value: [
            { ...event, reason: "NodeLinkUnfit", lastTimestamp: "2025-12-31T23:00:00Z" },
            event,
            { ...event, involvedObject: { ...event.involvedObject, uid: "former" } },
            { ...event, reason: "Other" },
          ],
        },
      },
      want: [
        `warning DefinitionTolerated on node n1: ${message} (event of 2026-01-01T00:00:00Z; it may be repaired since, because this kind has no status)`,
      ],
    },
    {
      name: "is only a warning if an event reports it",
      facts: {
        apis: api(["network-attachment-definitions", "network-attachment-definitions/status"]),
        networks: { value: [network] },
        networkEvents: { value: [event] },
      },
      want: ["ok no node reports problems with 1 of 1"],
    },
  ])("$name", ({ facts, want }) => {
    const findings = judgeNetworks({ ...HEALTHY, ...facts });
    expect(findings.map(({ verdict, message }) => `${verdict} ${message}`)).toEqual(want);
  });
});

test("does not report missing components if only net-agent is installed", () => {
  const failure = { failure: "not found" };
  const daemonSets = "value" in HEALTHY.daemonSets ? HEALTHY.daemonSets.value : [];
  const findings = judgeInstallation({
    ...HEALTHY,
    apis: [{ groupVersion: "kubevirt.io/v1", resources: ["a"], served: failure }],
    trial: failure,
    apiServices: { value: [] },
    deployments: { value: [] },
    leader: { value: undefined },
    vmis: failure,
    nodes: nodeWith({ allocatable: {} }),
    daemonSets: { value: daemonSets.filter(({ metadata }) => metadata.name === "net-agent") },
  });
  expect(findings.map(({ check, verdict }) => `${verdict} ${check}`)).toEqual([
    "ok API server",
    "ok DaemonSet net-agent",
    "ok node n1",
    "ok networks",
  ]);
});

describe("devices of a node", () => {
  test("are no fault before virt-handler is installed", () => {
    const nodes = nodeWith({ allocatable: {} });
    const [finding] = judgeNodes({ ...HEALTHY, nodes, daemonSets: { value: [] } });
    expect(finding).toMatchObject({ verdict: "ok" });
    expect(finding?.message).toContain("known once virt-handler runs");
  });

  test("does not report KVM as used if guests are emulated", () => {
    const [finding] = judgeNodes({ ...HEALTHY, useEmulation: true });
    expect(finding?.message).toContain("emulated in software");
    expect(finding?.message).not.toContain("with /dev/kvm");
  });
});

test("a namespace with tenants and without a quota is a warning with the next step", () => {
  const findings = judgeInstallation({ ...HEALTHY, unlimitedTenants: { value: ["blue"] } });
  expect(findings).toContainEqual({
    check: "namespace blue",
    verdict: "warning",
    message:
      "its users can use up the nodes, because it has no ResourceQuota: patchbay create namespace blue --existing",
  });
});

describe("sockets of vhost-user", () => {
  const SOCKETS = { [names.VHOST_USER_RESOURCE]: "1000" };
  const DATAPLANE = { [names.VHOST_USER_DATAPLANE_RESOURCE]: "1" };
  const processes: NonNullable<Facts["processes"]> = {
    value: {
      phase: "ready",
      reason: "",
      processes: [],
      disk: { path: "/data", sizeBytes: 1e12, freeBytes: 5e11 },
      readOnlyVolumes: [],
    },
  };

  test.each<{
    readonly what: string;
    readonly offered: Readonly<Record<string, string>>;
    readonly facts?: Partial<Facts>;
    readonly missing: readonly string[];
  }>([
    {
      what: "both",
      offered: {},
      missing: [names.VHOST_USER_RESOURCE, names.VHOST_USER_DATAPLANE_RESOURCE],
    },
    { what: "the dataplane's", offered: SOCKETS, missing: Object.keys(DATAPLANE) },
    { what: "none", offered: { ...SOCKETS, ...DATAPLANE }, missing: [] },
    {
      what: "none with the feature gate off",
      offered: {},
      facts: { offersDataplane: false },
      missing: [],
    },
    { what: "none on a standalone machine", offered: {}, facts: { processes }, missing: [] },
  ])("that a node does not offer are reported: $what", ({ offered, facts, missing }) => {
    const [node] = "value" in HEALTHY.nodes ? HEALTHY.nodes.value : [];
    const allocatable = { ...node?.status?.allocatable, ...offered };
    const nodes = node && { value: [{ ...node, status: { ...node.status, allocatable } }] };
    const findings = judgeNodes({
      ...HEALTHY,
      offersDataplane: true,
      ...facts,
      ...(nodes && { nodes }),
    });
    const found = findings
      .filter(({ verdict }) => verdict === "wrong")
      .map(({ message }) => message);
    expect(found).toEqual(
      missing.map((resource) => `offers no ${resource}, and VhostUserDataplane is on`),
    );
  });
});

describe("SELinux of a standalone machine", () => {
  test.each<{
    readonly what: string;
    readonly selinux: Facts["selinux"];
    readonly want: readonly { readonly verdict: string; readonly message: RegExp }[];
  }>([
    { what: "that is not checked", selinux: undefined, want: [] },
    {
      what: "that is disabled",
      selinux: { value: { mode: "off", hasContainerType: false } },
      want: [],
    },
    {
      what: "enforcing, without a policy for containers",
      selinux: { value: { mode: "enforcing", hasContainerType: false } },
      want: [{ verdict: "wrong", message: /^is enforcing, .* VMs cannot use vhost-user sockets$/ }],
    },
    {
      what: "permissive, without a policy for containers",
      selinux: { value: { mode: "permissive", hasContainerType: false } },
      want: [{ verdict: "wrong", message: /^is permissive, and its policy has no type/ }],
    },
    {
      what: "enforcing, with a policy for containers",
      selinux: { value: { mode: "enforcing", hasContainerType: true } },
      want: [{ verdict: "ok", message: /whether launchers may connect .* ausearch/ }],
    },
    {
      what: "permissive",
      selinux: { value: { mode: "permissive", hasContainerType: true } },
      want: [{ verdict: "ok", message: /^is permissive and has the type container_file_t$/ }],
    },
    {
      what: "that this user may not read",
      selinux: { failure: "EACCES" },
      want: [{ verdict: "unknown", message: /^EACCES$/ }],
    },
  ])("$what", ({ selinux, want }) => {
    const facts = selinux === undefined ? HEALTHY : { ...HEALTHY, selinux };
    const found = judgeInstallation(facts).filter(({ check }) => check === "SELinux");
    expect(found).toEqual(
      want.map(
        ({ message, verdict }) =>
          expect.objectContaining({
            verdict,
            message: expect.stringMatching(message) as string,
          }) as object,
      ),
    );
    expect(
      found.filter(({ verdict, fix }) => (verdict === "wrong") !== (fix !== undefined)),
    ).toEqual([]);
  });
});

/** A dry run of 20 s that ended 40 s before the leases were read. */
function slowTrial(serverMs: number) {
  const { nowMs } = HEALTHY;
  const times = { sentMs: nowMs - 60_000, receivedMs: nowMs - 40_000 };
  return trialWith({ ...times, serverMs: nowMs + serverMs });
}

describe("finds", () => {
  test.each<{
    readonly what: string;
    readonly facts: Partial<Facts>;
    readonly want: readonly string[];
  }>([
    {
      what: "an old server",
      facts: { serverVersion: { value: "v1.25.3" } },
      want: ["API server: Kubernetes v1.25.3 is older than 1.26"],
    },
    {
      what: "a clock difference",
      facts: {
        trial: trialWith({ serverMs: HEALTHY.nowMs + 7_000 }),
      },
      want: [
        "clock of the API server: is 7 s ahead of this computer's: it decides whether certificates and leases are valid",
      ],
    },
    {
      what: "a clock difference after a slow response",
      facts: { trial: slowTrial(-67_000) },
      want: [
        "clock of the API server: is 7 s behind this computer's: it decides whether certificates and leases are valid",
        "node n1: has a clock that is 7 s ahead of the API server's",
      ],
    },
    {
      what: "no clock difference in a slow response, nor in the checks after it",
      facts: { trial: slowTrial(-55_000) },
      want: [],
    },
    {
      what: "a missing kind",
      facts: {
        apis: [{ groupVersion: "kubevirt.io/v1", resources: ["a", "b"], served: { value: ["b"] } }],
      },
      want: ["API kubevirt.io/v1: lacks a"],
    },
    {
      what: "an API that does not respond",
      facts: {
        apis: [
          { groupVersion: "kubevirt.io/v1", resources: ["a"], served: { failure: "it is away" } },
        ],
      },
      want: ["API kubevirt.io/v1: is not served: it is away"],
    },
    {
      what: "webhooks that are not called",
      facts: {
        trial: trialWith({ hasDefaults: false, isRefused: false }),
      },
      want: [
        "webhooks of virt-api: defaults of a VM are not set, and an invalid VM is not rejected: the API server does not call virt-api",
      ],
    },
    {
      what: "a webhook that does not respond",
      facts: {
        trial: { failure: 'failed calling webhook "mutate.virt-api.patchbay.io": refused' },
      },
      want: ['webhooks of virt-api: failed calling webhook "mutate.virt-api.patchbay.io": refused'],
    },
    {
      what: "certificates",
      facts: {
        certificates: [
          { subject: "a", endsMs: parseTime("2026-01-10T00:00:00Z") },
          { subject: "b", endsMs: parseTime("2025-12-31T00:00:00Z") },
        ],
      },
      want: ["certificate: a: expires on 2026-01-10", "certificate: b: expired on 2025-12-31"],
    },
    {
      what: "pods that are not ready",
      facts: {
        deployments: {
          value: [
            {
              apiVersion: "apps/v1",
              kind: "Deployment",
              metadata: { name: "virt-api" },
              spec: { replicas: 2 },
              status: { readyReplicas: 1, updatedReplicas: 2 },
            },
          ],
        },
      },
      want: ["Deployment virt-api: 1 of 2 pods are ready"],
    },
    {
      what: "an agent without a node",
      facts: {
        daemonSets: {
          value: [
            {
              apiVersion: "apps/v1",
              kind: "DaemonSet",
              metadata: { name: "net-agent" },
              status: {},
            },
          ],
        },
      },
      want: ["DaemonSet net-agent: has no pods: none are requested, or no node is suitable"],
    },
    {
      what: "failed processes of a machine",
      facts: {
        processes: {
          value: {
            phase: "failed",
            reason: "no space left",
            processes: [
              { name: "virt-api", runs: false },
              { name: "net-agent", runs: true, isResponding: false },
            ],
            disk: { path: "/data", sizeBytes: 1e12, freeBytes: 1e9 },
            readOnlyVolumes: ["pvc-1"],
          },
        },
      },
      want: [
        "supervisor: is failed: no space left",
        "process virt-api: does not run",
        "process net-agent: runs but does not respond",
        "disk of /data: is full: 1.0 GB of 1.0 TB are free; new pods, VMs and images are rejected, and new objects when nothing is left",
        "volume pvc-1: is read-only, because the machine's disk was full or failed during a write",
      ],
    },
    {
      what: "no leader",
      facts: { leader: { value: undefined } },
      want: ["leader of the virt-controllers: there is no leader"],
    },
    {
      what: "a leader that no longer renews its lease",
      facts: {
        leader: {
          value: leaseOf("virt-controller", {
            holderIdentity: "one",
            leaseDurationSeconds: 4,
            renewTime: at(-30),
          }),
        },
      },
      want: ["leader of the virt-controllers: one has not renewed its lease for 30 s"],
    },
    {
      what: "a node that is not ready, whose old lease proves nothing about its clock",
      facts: {
        nodes: nodeWith({
          conditions: [{ type: "Ready", status: "Unknown", message: "it is silent" }],
        }),
        nodeLeases: { value: [leaseOf("n1", { renewTime: at(-300) })] },
      },
      want: ["node n1: is not ready: it is silent"],
    },
    {
      what: "a node that runs out of disk space",
      facts: {
        nodes: nodeWith({
          conditions: [
            { type: "Ready", status: "True" },
            { type: "DiskPressure", status: "True", message: "the machine is low on Disk" },
            { type: "MemoryPressure", status: "False", message: "the machine has enough Memory" },
          ],
        }),
      },
      want: ["node n1: has DiskPressure: the machine is low on Disk"],
    },
    {
      what: "a node's slow clock",
      facts: { nodeLeases: { value: [leaseOf("n1", { renewTime: at(-300) })] } },
      want: ["node n1: has a clock that is 300 s behind the API server's"],
    },
    {
      what: "a node's fast clock",
      facts: { nodeLeases: { value: [leaseOf("n1", { renewTime: at(30) })] } },
      want: ["node n1: has a clock that is 30 s ahead of the API server's"],
    },
    {
      what: "a node without devices",
      facts: { nodes: nodeWith({ allocatable: {} }) },
      want: [
        "node n1: offers no /dev/net/tun: no launcher is started there",
        "node n1: offers no /dev/kvm: no guest is started there",
      ],
    },
    {
      what: "an emulated node needs no KVM",
      facts: {
        nodes: nodeWith({ allocatable: { [names.TUN_RESOURCE]: "9" } }),
        useEmulation: true,
      },
      want: [],
    },
    {
      what: "a network that a node cannot attach",
      facts: {
        networks: {
          value: [
            {
              apiVersion: "k8s.cni.cncf.io/v1",
              kind: "NetworkAttachmentDefinition",
              metadata: { namespace: "blue", name: "fast" },
              status: {
                problems: [
                  { node: "n1", reason: "NodeLinkUnfit", message: "no link eth9", generation: 1 },
                ],
              },
            },
          ],
        },
      },
      want: ["network blue/fast: NodeLinkUnfit on node n1: no link eth9"],
    },
    {
      what: "a launcher without a VMI",
      facts: { pods: { value: [launcherOf("u1", at(-600)), launcherOf("u2", at(-5))] } },
      want: ["launcher blue/virt-launcher-one: runs, but its virtual machine instance is deleted"],
    },
    {
      what: "a VMI that is stuck in deletion",
      facts: { vmis: { value: [vmiOf("u1", at(-600)), vmiOf("u2", at(-20)), vmiOf("u3")] } },
      want: ["virtual machine instance blue/one: should have been deleted 570 s ago"],
    },
  ])("$what", ({ facts, want }) => {
    expect(wrongOf({ ...HEALTHY, ...facts })).toEqual(want);
  });
});
