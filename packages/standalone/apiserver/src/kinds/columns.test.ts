// SPDX-License-Identifier: Apache-2.0
// Columns of `kubectl get` for built-in kinds; those of kinds without a controller are beside them, in kept.
import { expect, test } from "vitest";
import { openStore } from "../storage/sqlite-store.ts";
import { cellsOf } from "../testing/judge.ts";
import { Registry } from "./registry.ts";

const registry = new Registry(
  openStore(":memory:", (error) => {
    throw error;
  }),
);
const CREATED = "2024-01-01T00:00:00Z";
/** A minute after `CREATED`. */
const NOW_MS = 1_704_067_260_000;
const RBAC = "rbac.authorization.k8s.io/v1";
const metadata = { creationTimestamp: CREATED };
const event = {
  metadata,
  type: "Normal",
  reason: "Started",
  message: " up \n",
  involvedObject: { kind: "Pod", name: "p", fieldPath: "spec" },
};
const EVENT = {
  Type: "Normal",
  Reason: "Started",
  Object: "pod/p",
  Subobject: "spec",
  Message: "up",
  Name: "o",
};
const waiting = (reason: string) => ({ state: { waiting: { reason } } });

interface Row {
  readonly of: readonly [apiVersion: string, kind: string];
  readonly fields?: Record<string, unknown>;
  readonly want: Record<string, unknown>;
}

const PODS: readonly Row[] = [
  {
    of: ["v1", "Pod"],
    want: {
      Ready: "0/0",
      Status: "Unknown",
      Restarts: "0",
      IP: "<none>",
      Node: "<none>",
      "Nominated Node": "<none>",
      "Readiness Gates": "<none>",
    },
  },
  {
    of: ["v1", "Pod"],
    fields: {
      spec: { nodeName: "n", containers: [{}, {}] },
      status: {
        phase: "Running",
        podIP: "10.0.0.1",
        nominatedNodeName: "m",
        containerStatuses: [{ ready: true, restartCount: 2 }, { restartCount: 3 }, {}],
      },
    },
    want: {
      Ready: "1/2",
      Status: "Running",
      Restarts: "5",
      IP: "10.0.0.1",
      Node: "n",
      "Nominated Node": "m",
    },
  },
  {
    of: ["v1", "Pod"],
    fields: { status: { phase: "Pending", containerStatuses: [{}, waiting("ErrImagePull")] } },
    want: { Status: "ErrImagePull" },
  },
  {
    of: ["v1", "Pod"],
    fields: { status: { containerStatuses: [{ state: { terminated: { reason: "Error" } } }] } },
    want: { Status: "Error" },
  },
  {
    of: ["v1", "Pod"],
    fields: { status: { phase: "Failed", reason: "Evicted" } },
    want: { Status: "Evicted" },
  },
  {
    of: ["v1", "Pod"],
    fields: { metadata: { deletionTimestamp: CREATED }, status: { phase: "Running" } },
    want: { Status: "Terminating" },
  },
];

const CORE: readonly Row[] = [
  {
    of: ["v1", "ConfigMap"],
    fields: { data: { a: "1", b: "2" }, binaryData: { c: "" } },
    want: { Data: 3 },
  },
  {
    of: ["v1", "Secret"],
    fields: { type: "Opaque", data: { a: "" } },
    want: { Data: 1, Type: "Opaque" },
  },
  { of: ["v1", "ServiceAccount"], fields: { secrets: [{}] }, want: { Secrets: 1 } },
  { of: ["v1", "Namespace"], fields: { status: { phase: "Active" } }, want: { Status: "Active" } },
  { of: ["v1", "Endpoints"], want: { Endpoints: "<none>" } },
  {
    of: ["v1", "Endpoints"],
    fields: {
      subsets: [
        { addresses: [{ ip: "1.1.1.1" }, { ip: "1.1.1.2" }], ports: [{ port: 80 }] },
        { addresses: [{ ip: "1.1.1.3" }] },
      ],
    },
    want: { Endpoints: "1.1.1.1:80,1.1.1.2:80" },
  },
  {
    of: ["discovery.k8s.io/v1", "EndpointSlice"],
    fields: { addressType: "IPv4", ports: [{ port: 1 }], endpoints: [{ addresses: ["1.1.1.1"] }] },
    want: { AddressType: "IPv4", Ports: "1", Endpoints: "1.1.1.1" },
  },
  { of: ["v1", "Node"], want: { Status: "Unknown", Roles: "<none>", Version: "" } },
  {
    of: ["v1", "Node"],
    fields: {
      metadata: {
        labels: { "node-role.kubernetes.io/z": "", "node-role.kubernetes.io/a": "", other: "" },
      },
      spec: { unschedulable: true },
      status: {
        conditions: [
          { type: "DiskPressure", status: "False" },
          { type: "Ready", status: "True" },
        ],
        addresses: [
          { type: "Hostname", address: "h" },
          { type: "InternalIP", address: "10.0.0.1" },
        ],
        nodeInfo: { kubeletVersion: "v1.30.0", osImage: "os" },
      },
    },
    want: {
      Status: "Ready,SchedulingDisabled",
      Roles: "a,z",
      Version: "v1.30.0",
      "Internal-IP": "10.0.0.1",
      "External-IP": "<none>",
      "OS-Image": "os",
      "Kernel-Version": "<unknown>",
    },
  },
  {
    of: ["v1", "Node"],
    fields: { status: { conditions: [{ type: "Ready", status: "False" }] } },
    want: { Status: "NotReady" },
  },
  {
    of: ["v1", "Service"],
    fields: { spec: { type: "ClusterIP" } },
    want: {
      Type: "ClusterIP",
      "Cluster-IP": "<none>",
      "External-IP": "<none>",
      "Port(s)": "<none>",
      Selector: "<none>",
    },
  },
  {
    of: ["v1", "Service"],
    fields: {
      spec: {
        type: "LoadBalancer",
        clusterIP: "10.96.0.7",
        selector: { app: "a" },
        ports: [
          { port: 80, nodePort: 30_080, protocol: "TCP" },
          { port: 53, protocol: "UDP" },
        ],
      },
    },
    want: {
      "Cluster-IP": "10.96.0.7",
      "External-IP": "<pending>",
      "Port(s)": "80:30080/TCP,53/UDP",
      Selector: "app=a",
    },
  },
  {
    of: ["v1", "Service"],
    fields: { spec: { type: "ExternalName", externalName: "x.io" } },
    want: { "External-IP": "x.io" },
  },
  {
    of: ["v1", "PersistentVolumeClaim"],
    fields: {
      spec: { volumeName: "v", storageClassName: "s", volumeMode: "Block" },
      status: { phase: "Bound", capacity: { storage: "1Gi" }, accessModes: ["ReadWriteOnce", "x"] },
    },
    want: {
      Status: "Bound",
      Volume: "v",
      Capacity: "1Gi",
      "Access Modes": "RWO,",
      StorageClass: "s",
      VolumeMode: "Block",
    },
  },
  {
    of: ["v1", "PersistentVolumeClaim"],
    fields: { metadata: { deletionTimestamp: CREATED }, status: { phase: "Bound" } },
    want: { Status: "Terminating" },
  },
  {
    of: ["v1", "PersistentVolume"],
    fields: {
      spec: {
        capacity: { storage: "1Gi" },
        accessModes: ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"],
        persistentVolumeReclaimPolicy: "Retain",
        storageClassName: "s",
        volumeMode: "Block",
        claimRef: { namespace: "n", name: "c" },
      },
      status: { phase: "Failed", reason: "r" },
    },
    want: {
      Capacity: "1Gi",
      "Access Modes": "ROX,RWX,RWOP",
      "Reclaim Policy": "Retain",
      Status: "Failed",
      Claim: "n/c",
      StorageClass: "s",
      Reason: "r",
      VolumeMode: "Block",
    },
  },
  {
    of: ["v1", "PersistentVolume"],
    fields: { metadata: { deletionTimestamp: CREATED }, status: { phase: "Bound" } },
    want: { Status: "Terminating", Claim: "" },
  },
];

const EVENTS: readonly Row[] = [
  {
    of: ["v1", "Event"],
    fields: event,
    want: { ...EVENT, "Last Seen": "60s", "First Seen": "60s", Source: "", Count: 1 },
  },
  {
    of: ["v1", "Event"],
    fields: {
      ...event,
      firstTimestamp: "2024-01-01T00:00:30Z",
      lastTimestamp: "2024-01-01T00:00:50Z",
      source: { component: "c", host: "h" },
      count: 4,
    },
    want: { ...EVENT, "Last Seen": "10s", "First Seen": "30s", Source: "c, h", Count: 4 },
  },
  {
    of: ["v1", "Event"],
    fields: {
      ...event,
      eventTime: "2024-01-01T00:00:20Z",
      series: { count: 7, lastObservedTime: "2024-01-01T00:00:55Z" },
      reportingComponent: "r",
      reportingInstance: "i",
      count: 4,
    },
    want: { ...EVENT, "Last Seen": "5s", "First Seen": "40s", Source: "r, i", Count: 7 },
  },
  {
    of: ["events.k8s.io/v1", "Event"],
    fields: {
      metadata,
      type: "Normal",
      reason: "Started",
      note: "up",
      regarding: event.involvedObject,
      reportingController: "r",
      reportingInstance: "i",
      deprecatedCount: 3,
    },
    want: { ...EVENT, Source: "r, i", Count: 3 },
  },
];

const OTHERS: readonly Row[] = [
  { of: [RBAC, "Role"], fields: { metadata }, want: { "Created At": CREATED } },
  {
    of: [RBAC, "ClusterRoleBinding"],
    fields: {
      roleRef: { kind: "ClusterRole", name: "r" },
      subjects: [
        { kind: "User", name: "u" },
        { kind: "User", name: "v" },
        { kind: "Group", name: "g" },
        { kind: "ServiceAccount", namespace: "n", name: "s" },
      ],
    },
    want: { Role: "ClusterRole/r", Users: "u, v", Groups: "g", ServiceAccounts: "n/s" },
  },
  {
    of: ["storage.k8s.io/v1", "StorageClass"],
    fields: {
      metadata: { annotations: { "storageclass.kubernetes.io/is-default-class": "true" } },
      provisioner: "p",
      reclaimPolicy: "Delete",
      volumeBindingMode: "Immediate",
      allowVolumeExpansion: true,
    },
    want: {
      Name: "o (default)",
      Provisioner: "p",
      ReclaimPolicy: "Delete",
      VolumeBindingMode: "Immediate",
      AllowVolumeExpansion: true,
    },
  },
  {
    of: ["storage.k8s.io/v1", "StorageClass"],
    fields: { metadata: { annotations: { other: "true" } } },
    want: { Name: "o", AllowVolumeExpansion: false },
  },
  { of: ["storage.k8s.io/v1", "StorageClass"], want: { Name: "o" } },
  {
    of: ["apiregistration.k8s.io/v1", "APIService"],
    want: { Service: "Local", Available: "Unknown ()" },
  },
  {
    of: ["apiregistration.k8s.io/v1", "APIService"],
    fields: {
      spec: { service: { namespace: "n", name: "s" } },
      status: {
        conditions: [
          { type: "X", status: "True" },
          { type: "Available", status: "True" },
        ],
      },
    },
    want: { Service: "n/s", Available: "True" },
  },
  {
    of: ["apiregistration.k8s.io/v1", "APIService"],
    fields: { status: { conditions: [{ type: "Available", status: "False", reason: "Gone" }] } },
    want: { Available: "False (Gone)" },
  },
  {
    of: ["admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"],
    fields: { webhooks: [{}, {}] },
    want: { Webhooks: 2 },
  },
  {
    of: ["coordination.k8s.io/v1", "Lease"],
    fields: { spec: { holderIdentity: "h" } },
    want: { Holder: "h" },
  },
  {
    of: ["policy/v1", "PodDisruptionBudget"],
    fields: { spec: { minAvailable: 1 } },
    want: { "Min Available": "1", "Max Unavailable": "N/A", "Allowed Disruptions": 0 },
  },
  {
    of: ["policy/v1", "PodDisruptionBudget"],
    fields: { spec: { maxUnavailable: "10%" }, status: { disruptionsAllowed: 2 } },
    want: { "Min Available": "N/A", "Max Unavailable": "10%", "Allowed Disruptions": 2 },
  },
  {
    of: ["apiextensions.k8s.io/v1", "CustomResourceDefinition"],
    fields: { metadata },
    want: { "Created At": CREATED },
  },
];

test.each([...PODS, ...CORE, ...EVENTS, ...OTHERS])(
  "row %# of $of shows $want",
  ({ of, fields = {}, want }) => {
    const kind = registry.findByKind(...of);
    expect(kind === undefined ? undefined : cellsOf(kind, fields, NOW_MS)).toMatchObject(want);
  },
);
