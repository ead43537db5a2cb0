// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { printQuantity } from "../../shapes/scalar.ts";
import { cellsOf, changeRefusals, objectOf, refusals } from "../../testing/judge.ts";
import { SERVICE } from "../network/service.ts";
import { PERSISTENT_VOLUME_CLAIM } from "../storage/persistent-volume-claim.ts";
import { POD, parseAmounts } from "../workload/pod.ts";
import {
  RESOURCE_QUOTA,
  computeUsage,
  describeUnspecified,
  matchesScopes,
  readScopes,
} from "./resource-quota.ts";

function usageOf(bucket: string, object: KubeObject): Fields {
  const address = { bucket, namespace: "default", name: "o" };
  const usage = computeUsage({ address, view: () => object });
  return Object.fromEntries([...usage].map(([name, amount]) => [name, printQuantity(amount)]));
}

const container = (requests: Fields, limits: Fields = {}, more: Fields = {}) => ({
  name: "c",
  image: "i",
  resources: { requests, limits },
  ...more,
});

interface PodRow {
  readonly name: string;
  readonly given: Fields;
  readonly want: Fields;
}

test.each<PodRow>([
  { name: "without resources", given: { containers: [container({})] }, want: {} },
  {
    name: "with two containers",
    given: {
      containers: [
        container({ cpu: "100m", memory: "1Gi" }, { cpu: "1", memory: "2Gi" }),
        container({ cpu: "200m", memory: "512Mi" }, { "ephemeral-storage": "1Gi" }),
      ],
    },
    want: {
      cpu: "300m",
      "requests.cpu": "300m",
      "limits.cpu": "1",
      memory: "1536Mi",
      "requests.memory": "1536Mi",
      "limits.memory": "2Gi",
      "limits.ephemeral-storage": "1Gi",
    },
  },
  {
    name: "with a larger init container",
    given: {
      containers: [container({ cpu: "1" })],
      initContainers: [container({ cpu: "3" }), container({ cpu: "2" })],
    },
    want: { cpu: "3", "requests.cpu": "3" },
  },
  {
    name: "with a restartable init container, which runs beside later ones",
    given: {
      containers: [container({ cpu: "1" })],
      initContainers: [
        container({ cpu: "1" }, {}, { restartPolicy: "Always" }),
        container({ cpu: "4" }),
      ],
    },
    want: { cpu: "5", "requests.cpu": "5" },
  },
  {
    name: "with overhead, which adds only to limits that exist",
    given: {
      containers: [container({ cpu: "1" }, { cpu: "1" })],
      overhead: { cpu: "500m", memory: "64Mi" },
    },
    want: {
      cpu: "1500m",
      "requests.cpu": "1500m",
      "limits.cpu": "1500m",
      memory: "64Mi",
      "requests.memory": "64Mi",
    },
  },
  {
    name: "with devices and huge pages",
    given: {
      containers: [
        container({
          "devices.kubevirt.io/tun": "2",
          "hugepages-2Mi": "4Mi",
          "kubernetes.io/x": "1",
        }),
      ],
    },
    want: {
      "requests.devices.kubevirt.io/tun": "2",
      "hugepages-2Mi": "4Mi",
      "requests.hugepages-2Mi": "4Mi",
    },
  },
])("a pod $name uses $want", ({ given, want }) => {
  const pod = objectOf(POD, { spec: given });
  expect(usageOf("/pods", pod)).toEqual({ "count/pods": "1", pods: "1", ...want });
  const ended = { ...pod, status: { phase: "Succeeded" } };
  expect(usageOf("/pods", ended)).toEqual({ "count/pods": "1" });
});

test.each([
  { spec: { type: "ClusterIP", ports: [{}] }, want: {} },
  { spec: { type: "NodePort", ports: [{}, {}] }, want: { "services.nodeports": "2" } },
  {
    spec: { type: "LoadBalancer", ports: [{}, {}] },
    want: { "services.nodeports": "2", "services.loadbalancers": "1" },
  },
  {
    spec: {
      type: "LoadBalancer",
      allocateLoadBalancerNodePorts: false,
      ports: [{ nodePort: 30_000 }, {}],
    },
    want: { "services.nodeports": "1", "services.loadbalancers": "1" },
  },
])("a Service with $spec uses $want", ({ spec, want }) => {
  expect(usageOf("/services", objectOf(SERVICE, { spec }))).toEqual({
    "count/services": "1",
    services: "1",
    ...want,
  });
});

test.each([
  { more: {}, metadata: {}, prefix: undefined },
  { more: { storageClassName: "local" }, metadata: {}, prefix: "local" },
  {
    more: {},
    metadata: { annotations: { "volume.beta.kubernetes.io/storage-class": "old" } },
    prefix: "old",
  },
])("a claim of class $prefix uses storage", ({ more, metadata, prefix }) => {
  const spec = { resources: { requests: { storage: "3Gi" } }, ...more };
  const claim = objectOf(PERSISTENT_VOLUME_CLAIM, { metadata, spec });
  const classUsage = {
    [`${String(prefix)}.storageclass.storage.k8s.io/requests.storage`]: "3Gi",
    [`${String(prefix)}.storageclass.storage.k8s.io/persistentvolumeclaims`]: "1",
  };
  expect(usageOf("/persistentvolumeclaims", claim)).toEqual({
    "count/persistentvolumeclaims": "1",
    persistentvolumeclaims: "1",
    "requests.storage": "3Gi",
    ...(prefix === undefined ? {} : classUsage),
  });
});

test("a ResourceClaim uses devices of its classes, at most those of one alternative", () => {
  const requests = [
    { name: "a", exactly: { deviceClassName: "nic", count: 2 } },
    { name: "b", exactly: { deviceClassName: "nic" } },
    { name: "c", exactly: { deviceClassName: "gpu", allocationMode: "All" } },
    {
      name: "d",
      firstAvailable: [
        { deviceClassName: "fpga", count: 3 },
        { deviceClassName: "fpga", count: 5 },
      ],
    },
  ];
  const claim = objectOf(POD, { spec: { devices: { requests } } });
  expect(usageOf("resource.k8s.io/resourceclaims", claim)).toEqual({
    "count/resourceclaims.resource.k8s.io": "1",
    "nic.deviceclass.resource.k8s.io/devices": "3",
    "gpu.deviceclass.resource.k8s.io/devices": "32",
    "fpga.deviceclass.resource.k8s.io/devices": "5",
  });
});

test.each([
  { bucket: "kubevirt.io/virtualmachines", want: ["count/virtualmachines.kubevirt.io"] },
  { bucket: "/secrets", want: ["count/secrets", "secrets"] },
  { bucket: "/events", want: ["count/events"] },
])("an object in $bucket is counted as $want", ({ bucket, want }) => {
  expect(Object.keys(usageOf(bucket, objectOf(POD)))).toEqual(want);
});

const selector = (scopeName: string, operator: string, values?: readonly string[]) => ({
  scopeSelector: { matchExpressions: [{ scopeName, operator, values }] },
});
const affinity = (term: Fields, isPreferred = false, kind = "podAffinity") => ({
  affinity: {
    [kind]: isPreferred
      ? { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, podAffinityTerm: term }] }
      : { requiredDuringSchedulingIgnoredDuringExecution: [term] },
  },
});
const CROSS = { scopes: ["CrossNamespacePodAffinity"] };

test.each<{ quota: Fields; pod: Fields; want: boolean }>([
  { quota: {}, pod: {}, want: true },
  { quota: { scopes: ["Terminating"] }, pod: { activeDeadlineSeconds: 1 }, want: true },
  { quota: { scopes: ["Terminating"] }, pod: {}, want: false },
  { quota: { scopes: ["NotTerminating"] }, pod: {}, want: true },
  { quota: { scopes: ["BestEffort"] }, pod: { containers: [container({})] }, want: true },
  {
    quota: { scopes: ["BestEffort"] },
    pod: { containers: [container({ cpu: "1" })] },
    want: false,
  },
  {
    quota: { scopes: ["NotBestEffort"] },
    pod: { containers: [container({ cpu: "1" })] },
    want: true,
  },
  {
    quota: { scopes: ["NotBestEffort", "Terminating"] },
    pod: { containers: [container({ cpu: "1" })] },
    want: false,
  },
  { quota: { scopes: ["PriorityClass"] }, pod: { priorityClassName: "a" }, want: true },
  { quota: { scopes: ["PriorityClass"] }, pod: {}, want: false },
  { quota: selector("PriorityClass", "In", ["a"]), pod: { priorityClassName: "a" }, want: true },
  { quota: selector("PriorityClass", "In", ["b"]), pod: { priorityClassName: "a" }, want: false },
  { quota: selector("PriorityClass", "NotIn", ["a"]), pod: {}, want: true },
  { quota: selector("PriorityClass", "DoesNotExist"), pod: {}, want: true },
  { quota: selector("PriorityClass", "Exists"), pod: {}, want: false },
  { quota: CROSS, pod: {}, want: false },
  { quota: CROSS, pod: affinity({ topologyKey: "t" }), want: false },
  { quota: CROSS, pod: affinity({ namespaces: ["b"] }), want: true },
  { quota: CROSS, pod: affinity({ namespaceSelector: {} }), want: true },
  { quota: CROSS, pod: affinity({ namespaceSelector: {} }, true), want: true },
  { quota: CROSS, pod: affinity({ namespaceSelector: {} }, false, "podAntiAffinity"), want: true },
])("scopes $quota cover a pod with $pod: $want", ({ quota, pod, want }) => {
  const address = { bucket: "/pods", namespace: "default", name: "o" };
  const object = objectOf(POD, { spec: pod });
  expect(matchesScopes(readScopes(quota), { address, view: () => object })).toBe(want);
});

test("a quota with scopes covers only pods", () => {
  const address = { bucket: "/secrets", namespace: "default", name: "o" };
  const given = { address, view: () => objectOf(POD) };
  expect(matchesScopes(readScopes({ scopes: ["NotTerminating"] }), given)).toBe(false);
  expect(matchesScopes([], given)).toBe(true);
});

test("names the containers that lack limited resources", () => {
  const pod = objectOf(POD, {
    spec: {
      containers: [container({ cpu: "1" }), container({}, {}, { name: "b" })],
      initContainers: [container({}, {}, { name: "a" })],
    },
  });
  const hard = parseAmounts({
    pods: "1",
    "requests.cpu": "1",
    memory: "1",
    "requests.storage": "1",
  });
  expect(describeUnspecified(pod, hard)).toBe("memory for: a,b,c; requests.cpu for: a,b");
  expect(describeUnspecified(pod, parseAmounts({ pods: "1" }))).toBe("");
});

test.each<{ spec: Fields; want: readonly string[] }>([
  { spec: { hard: { pods: "3", "count/jobs.batch": "1", "requests.cpu": "500m" } }, want: [] },
  { spec: { hard: { "patchbay.io/stored-bytes": "1Mi" } }, want: [] },
  {
    spec: { hard: { vms: "1" } },
    want: ['spec.hard[vms]: Invalid value: "vms": must be a standard resource for quota'],
  },
  {
    spec: { hard: { "a/b/c": "1" } },
    want: [expect.stringContaining("spec.hard[a/b/c]: Invalid value") as string],
  },
  {
    spec: { hard: { pods: "-1" } },
    want: ['spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0'],
  },
  {
    spec: { hard: { pods: "500m" } },
    want: ['spec.hard[pods]: Invalid value: "500m": must be an integer'],
  },
  {
    spec: { hard: { pods: "1" }, scopes: ["Idle"] },
    want: ['spec.scopes: Invalid value: ["Idle"]: unsupported scope'],
  },
  {
    spec: { hard: { cpu: "1" }, scopes: ["BestEffort"] },
    want: ['spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource'],
  },
  {
    spec: { hard: { services: "1" }, scopes: ["Terminating", "NotTerminating"] },
    want: [
      'spec.scopes: Invalid value: ["Terminating","NotTerminating"]: unsupported scope applied to resource',
      'spec.scopes: Invalid value: ["Terminating","NotTerminating"]: unsupported scope applied to resource',
      'spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes',
    ],
  },
  { spec: { hard: { pods: "0" }, ...selector("CrossNamespacePodAffinity", "Exists") }, want: [] },
  {
    spec: { hard: { pods: "0" }, ...selector("BestEffort", "In", ["a"]) },
    want: [
      expect.stringContaining("operator: Invalid value: \"In\": must be 'Exist' when") as string,
    ],
  },
  {
    spec: { hard: { pods: "0" }, ...selector("PriorityClass", "In") },
    want: [expect.stringContaining("values: Required value: must be at least one value") as string],
  },
  {
    spec: { hard: { pods: "0" }, ...selector("PriorityClass", "Exists", ["a"]) },
    want: [expect.stringContaining("must be no value when") as string],
  },
  {
    spec: { hard: { pods: "0" }, ...selector("Idle", "Is") },
    want: [
      expect.stringContaining("unsupported scope") as string,
      expect.stringContaining("not a valid selector operator") as string,
    ],
  },
])("a quota with $spec is refused for $want", ({ spec, want }) => {
  expect(refusals(RESOURCE_QUOTA, { spec })).toEqual(want);
});

test("scopes do not change", () => {
  const before = { spec: { hard: { pods: "1" }, scopes: ["BestEffort"] } };
  const after = { spec: { hard: { pods: "2" }, ...selector("PriorityClass", "Exists") } };
  expect(changeRefusals(RESOURCE_QUOTA, before, { spec: { ...before.spec, hard: {} } })).toEqual(
    [],
  );
  expect(changeRefusals(RESOURCE_QUOTA, before, after)).toEqual([
    "spec.scopes: Invalid value: null: field is immutable",
    expect.stringMatching(/^spec.scopeSelector: .*: field is immutable$/),
  ]);
});

test("columns show requests and limits", () => {
  const hard = { pods: "3", "limits.cpu": "2", "count/x.y": "1" };
  const status = { hard, used: { pods: "1", "limits.cpu": "500m" } };
  expect(cellsOf(RESOURCE_QUOTA, { status })).toMatchObject({
    Request: "count/x.y: 0/1, pods: 1/3",
    Limit: "limits.cpu: 500m/2",
  });
});
