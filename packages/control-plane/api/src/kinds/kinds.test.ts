// SPDX-License-Identifier: Apache-2.0
// The small questions that are asked of objects.
import { describe, expect, test } from "vitest";
import { networkConfigOf, usesEmulation, type KubeVirt } from "./kubevirt-config.ts";
import { findController } from "./kubernetes/meta.ts";
import { isAbsent, isDefaultNetwork } from "./network.ts";
import { isPodFinished } from "./kubernetes/pod.ts";
import {
  apiVersionOf,
  EVENTS,
  KUBEVIRTS,
  LEASES,
  NAMESPACES,
  NETWORK_ATTACHMENT_DEFINITIONS,
  NODES,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
} from "./resource.ts";
import { runStrategyOf, type VmSpec } from "./vm.ts";
import { isFinalPhase, isVmiFinal } from "./vmi.ts";

const META = { apiVersion: "v1", kind: "Any", metadata: { name: "a" } };

describe("the cluster's configuration", () => {
  const aKubeVirt = (configuration?: NonNullable<KubeVirt["spec"]>["configuration"]): KubeVirt => ({
    ...META,
    spec: configuration === undefined ? {} : { configuration },
  });
  const NO_MORE = {
    security: { mode: "Off", enforced: false },
    bindings: {},
    isStaged: false,
    autoBinding: "bridge",
    allowsHooks: false,
    nicGates: [],
  };
  const DEFAULTS = { pcieRootPorts: 32, maxQueues: 8, sharedMemory: true, ...NO_MORE };

  test.each([
    { name: "a missing object", kubevirt: undefined, want: DEFAULTS },
    { name: "an object without a specification", kubevirt: META, want: DEFAULTS },
    { name: "an empty specification", kubevirt: aKubeVirt(), want: DEFAULTS },
    { name: "an empty configuration", kubevirt: aKubeVirt({}), want: DEFAULTS },
    {
      name: "false and zero values",
      kubevirt: aKubeVirt({ network: { pcieRootPorts: 0, maxQueues: 1, sharedMemory: false } }),
      want: { pcieRootPorts: 0, maxQueues: 1, sharedMemory: false, ...NO_MORE },
    },
    {
      name: "the limit of queues before its former name",
      kubevirt: aKubeVirt({ network: { maxInterfaceQueues: 4, maxQueues: 2 } }),
      want: { ...DEFAULTS, maxQueues: 4 },
    },
    {
      name: "the rollout strategy Stage",
      kubevirt: aKubeVirt({ vmRolloutStrategy: "Stage" }),
      want: { ...DEFAULTS, isStaged: true },
    },
    {
      name: "VMs with hooks enabled",
      kubevirt: aKubeVirt({ developerConfiguration: { featureGates: ["Sidecar"] } }),
      want: { ...DEFAULTS, allowsHooks: true },
    },
    {
      name: "gates of interface fields, without other gates",
      kubevirt: aKubeVirt({
        developerConfiguration: { featureGates: ["HotplugNICs", "InterfaceMTUOverride"] },
      }),
      want: { ...DEFAULTS, nicGates: ["InterfaceMTUOverride"] },
    },
    {
      name: "the rollout strategy LiveUpdate",
      kubevirt: aKubeVirt({ vmRolloutStrategy: "LiveUpdate" }),
      want: DEFAULTS,
    },
    {
      name: "registered bindings",
      kubevirt: aKubeVirt({ network: { binding: { own: { domainAttachmentType: "tap" } } } }),
      want: { ...DEFAULTS, bindings: { own: { domainAttachmentType: "tap" } } },
    },
    {
      name: "the binding of the implicit NIC",
      kubevirt: aKubeVirt({ network: { defaultNetworkInterface: "masquerade" } }),
      want: { ...DEFAULTS, autoBinding: "masquerade" },
    },
  ])("for networks: $name", ({ kubevirt, want }) => {
    expect(networkConfigOf(kubevirt)).toEqual(want);
  });

  test.each([
    { kubevirt: undefined, want: false },
    { kubevirt: META, want: false },
    { kubevirt: aKubeVirt(), want: false },
    { kubevirt: aKubeVirt({}), want: false },
    { kubevirt: aKubeVirt({ developerConfiguration: {} }), want: false },
    { kubevirt: aKubeVirt({ developerConfiguration: { useEmulation: false } }), want: false },
    { kubevirt: aKubeVirt({ developerConfiguration: { useEmulation: true } }), want: true },
  ])("for guests without KVM: $kubevirt.spec is $want", ({ kubevirt, want }) => {
    expect(usesEmulation(kubevirt)).toBe(want);
  });
});

test("finds the owner that is marked as controller", () => {
  const owner = { apiVersion: "v1", kind: "Any", name: "a", uid: "1" };
  const controller = { ...owner, uid: "2", controller: true };
  const owned = (...ownerReferences: (typeof owner)[]) => ({
    ...META,
    metadata: { ...META.metadata, ownerReferences },
  });
  expect(findController(META)).toBeUndefined();
  expect(findController(owned())).toBeUndefined();
  expect(findController(owned(owner))).toBeUndefined();
  expect(findController(owned(owner, controller))).toEqual(controller);
});

test.each([
  { network: { name: "a", pod: {} }, is: true },
  { network: { name: "a", multus: { networkName: "b" } }, is: false },
  { network: { name: "a", multus: { networkName: "b", default: false } }, is: false },
  { network: { name: "a", multus: { networkName: "b", default: true } }, is: true },
  { network: { name: "a" }, is: false },
])("$network is the pod's default network: $is", ({ network, is }) => {
  expect(isDefaultNetwork(network)).toBe(is);
});

test.each([
  { state: "absent", is: true },
  { state: "up", is: false },
  { state: "", is: false },
])("an iface in state $state must be unplugged: $is", ({ state, is }) => {
  expect(isAbsent({ name: "a", state })).toBe(is);
});

test.each([
  { phase: "", is: false },
  { phase: "Pending", is: false },
  { phase: "Running", is: false },
  { phase: "Unknown", is: false },
  { phase: "Succeeded", is: true },
  { phase: "Failed", is: true },
] as const)("$phase is a final phase: $is", ({ phase, is }) => {
  expect(isFinalPhase(phase)).toBe(is);
  expect(isVmiFinal({ ...META, spec: { domain: {} }, status: { phase } })).toBe(is);
});

test("an object without a status has not ended", () => {
  expect(isVmiFinal({ ...META, spec: { domain: {} } })).toBe(false);
  expect(isPodFinished({ ...META, spec: { containers: [] } })).toBe(false);
});

test.each([
  { phase: "Pending", is: false },
  { phase: "Running", is: false },
  { phase: "Succeeded", is: true },
  { phase: "Failed", is: true },
] as const)("a pod in phase $phase has ended: $is", ({ phase, is }) => {
  expect(isPodFinished({ ...META, spec: { containers: [] }, status: { phase } })).toBe(is);
});

describe("the run strategy of a VM", () => {
  const template: VmSpec["template"] = { spec: { domain: {} } };
  test.each<{ spec: Omit<VmSpec, "template">; strategy: string }>([
    { spec: {}, strategy: "Halted" },
    { spec: { running: false }, strategy: "Halted" },
    { spec: { running: true }, strategy: "Always" },
    { spec: { runStrategy: "Manual" }, strategy: "Manual" },
    { spec: { runStrategy: "Halted", running: true }, strategy: "Halted" },
  ])("$spec is $strategy", ({ spec, strategy }) => {
    expect(runStrategyOf({ ...META, spec: { ...spec, template } })).toBe(strategy);
  });
});

test("every kind has an API path", () => {
  const types = [
    PODS,
    NODES,
    NAMESPACES,
    EVENTS,
    LEASES,
    VIRTUAL_MACHINES,
    VIRTUAL_MACHINE_INSTANCES,
    KUBEVIRTS,
    NETWORK_ATTACHMENT_DEFINITIONS,
  ];
  const lines = types.map((type) =>
    [apiVersionOf(type), type.resource, type.kind, type.namespaced ? "namespaced" : "cluster"].join(
      " ",
    ),
  );
  expect(lines).toEqual([
    "v1 pods Pod namespaced",
    "v1 nodes Node cluster",
    "v1 namespaces Namespace cluster",
    "v1 events Event namespaced",
    "coordination.k8s.io/v1 leases Lease namespaced",
    "kubevirt.io/v1 virtualmachines VirtualMachine namespaced",
    "kubevirt.io/v1 virtualmachineinstances VirtualMachineInstance namespaced",
    "kubevirt.io/v1 kubevirts KubeVirt namespaced",
    "k8s.cni.cncf.io/v1 network-attachment-definitions NetworkAttachmentDefinition namespaced",
  ]);
});
