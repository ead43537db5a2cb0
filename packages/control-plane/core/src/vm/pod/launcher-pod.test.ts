// SPDX-License-Identifier: Apache-2.0
// The launcher pod of a VMI, and whether a pod is it.
import { names, type VirtualMachineInstance, type VmiSpec, type GuestProbe } from "@patchbay/api";
import { printPcieTopology } from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { planVmi } from "../vmi.ts";
import { isLauncherOf } from "../../migration/owner.ts";
import { buildLauncherPod, buildConsoleLog, buildContainerProbes } from "./launcher-pod.ts";
import { CLUSTER, SETTINGS } from "../../testing/launcher-facts.ts";

function podOf(vmi: VirtualMachineInstance, useEmulation = true): Pod {
  const request = {
    ...SETTINGS,
    useEmulation,
    ports: 8,
    claims: new Map(),
    definitions: new Map(),
    bindings: {},
    allowsHooks: false,
  };
  return buildLauncherPod(vmi, request);
}

function withSpec(spec: Partial<VmiSpec>): VirtualMachineInstance {
  const vmi = aVmi();
  return { ...vmi, spec: { ...vmi.spec, ...spec } };
}

test("a launcher has the VMI's resource claims, and its first container uses them", () => {
  const resourceClaims = [
    { name: "nics", resourceClaimTemplateName: "nic" },
    { name: "shared", resourceClaimName: "existing" },
  ];
  const vmi = withSpec({
    resourceClaims,
    networks: [{ name: "blue", resourceClaim: { claimName: "nics", requestName: "nic" } }],
    domain: { devices: { interfaces: [{ name: "blue", bridge: {} }] } },
  });
  const { metadata, spec } = podOf(vmi);
  expect(spec.resourceClaims).toEqual(resourceClaims);
  expect(spec.containers.map(({ resources }) => resources?.claims)).toEqual([
    [{ name: "nics" }, { name: "shared" }],
    undefined,
  ]);
  expect(metadata.annotations?.[names.NETWORKS_ANNOTATION] ?? "[]").toBe("[]");
});

test("a launcher without claims has no field for them", () => {
  const { spec } = podOf(withSpec({ resourceClaims: [] }));
  expect("resourceClaims" in spec).toBe(false);
  expect(spec.containers[0]?.resources).not.toHaveProperty("claims");
});

function resourcesWith(pcieRootPorts: number): unknown {
  const vmi = aVmi({ nics: [], status: { phase: "Pending" } });
  const devices = { ...vmi.spec.domain.devices, pcieRootPorts };
  const memory = { guest: "128Mi" };
  const facts = {
    vmi: { ...vmi, spec: { ...vmi.spec, domain: { ...vmi.spec.domain, memory, devices } } },
    pod: undefined,
    settings: SETTINGS,
    ...CLUSTER,
  };
  const pods = planVmi(facts).flatMap((action) =>
    action.kind === "createPod" ? [action.pod] : [],
  );
  const { requests, limits } = pods[0]?.spec.containers[0]?.resources ?? {};
  return { request: requests?.["memory"], limit: limits?.["memory"] };
}

test("a launcher lists the ports of its VM's interfaces, with their names if these are valid", () => {
  const ports = [
    { name: "web", port: 80 },
    { name: "web", port: 81 },
    { name: "Not-Valid", port: 82, protocol: "udp" },
    { name: "a-name-too-long-by-far", port: 83 },
    { port: 84, protocol: "UDP" },
  ];
  const vmi = aVmi();
  const [iface = { name: "default" }] = vmi.spec.domain.devices?.interfaces ?? [];
  const devices = { ...vmi.spec.domain.devices, interfaces: [{ ...iface, ports }] };
  const pod = podOf(withSpec({ domain: { ...vmi.spec.domain, devices } }));
  expect(pod.spec.containers[0]?.ports).toEqual([
    { name: "web", containerPort: 80, protocol: "TCP" },
    { containerPort: 81, protocol: "TCP" },
    { containerPort: 82, protocol: "UDP" },
    { containerPort: 83, protocol: "TCP" },
    { containerPort: 84, protocol: "UDP" },
  ]);
  expect(podOf(aVmi()).spec.containers[0]?.ports).toBeUndefined();
});

// The channel of the guest's agent has a port too.
test.each([
  { ports: 0, limit: "363Mi" },
  { ports: 32, limit: "427Mi" },
  { ports: 128, limit: "619Mi" },
])("a launcher with $ports ports has limit $limit while they are set up", ({ ports, limit }) => {
  expect(resourcesWith(ports)).toEqual({ request: "361Mi", limit });
});

test.each([
  { version: 1, spec: {}, more: 0 },
  { version: 2, spec: {}, more: 0 },
  { version: 2, spec: { autoattachGraphicsDevice: true }, more: 32 },
  { version: 3, spec: {}, more: 32 },
  { version: 3, spec: { autoattachGraphicsDevice: false }, more: 0 },
])("a launcher with layout $version and $spec has $more MiB more for a display", (row) => {
  const memoryOf = (devices: VmiSpec["domain"]["devices"]): number => {
    const vmi = aVmi();
    const domain = { ...vmi.spec.domain, devices: { ...vmi.spec.domain.devices, ...devices } };
    const annotations = {
      [names.PCIE_TOPOLOGY_ANNOTATION]: printPcieTopology({ version: row.version, interfaces: [] }),
    };
    const metadata = { ...vmi.metadata, annotations };
    const pod = podOf({ ...vmi, metadata, spec: { ...vmi.spec, domain } });
    return Number.parseInt(pod.spec.containers[0]?.resources?.requests?.["memory"] ?? "", 10);
  };
  expect(memoryOf(row.spec) - memoryOf({ autoattachGraphicsDevice: false })).toBe(row.more);
});

test("a launcher has no privileges, the guest's kernel, and a grace period 5 s longer than the guest's", () => {
  const devices = { "devices.kubevirt.io/tun": "1" };
  expect(podOf(aVmi({ nics: [{ name: "one" }] }))).toEqual({
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: "virt-launcher-vm1-51ce5",
      namespace: "default",
      labels: {
        "kubevirt.io": "virt-launcher",
        "kubevirt.io/created-by": "vmi-uid",
        "vm.kubevirt.io/name": "vm1",
      },
      annotations: {
        "kubevirt.io/domain": "vm1",
        "kubectl.kubernetes.io/default-container": "compute",
        "k8s.v1.cni.cncf.io/networks":
          '[{"name":"blue","namespace":"default","interface":"pod7692c3ad354"}]',
      },
      ownerReferences: [
        {
          apiVersion: "kubevirt.io/v1",
          kind: "VirtualMachineInstance",
          name: "vm1",
          uid: "vmi-uid",
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: {
      restartPolicy: "Never",
      terminationGracePeriodSeconds: 35,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      hostname: "vm1",
      securityContext: {
        runAsUser: 107,
        runAsGroup: 107,
        fsGroup: 107,
        runAsNonRoot: true,
        seccompProfile: { type: "RuntimeDefault" },
      },
      containers: [
        {
          name: "compute",
          image: "launcher",
          imagePullPolicy: "IfNotPresent",
          env: [{ name: "SHUTDOWN_SECONDS", value: "30" }],
          resources: {
            requests: { cpu: "100m", memory: "361Mi", "ephemeral-storage": "16Mi", ...devices },
            limits: { memory: "377Mi", "ephemeral-storage": "178Mi", ...devices },
          },
          securityContext: {
            runAsUser: 107,
            runAsGroup: 107,
            runAsNonRoot: true,
            readOnlyRootFilesystem: true,
            allowPrivilegeEscalation: false,
            capabilities: { drop: ["ALL"] },
          },
          volumeMounts: [
            { name: "launcher", mountPath: "/run/launcher" },
            { name: "tmp", mountPath: "/tmp" },
            { name: "kernel-boot", mountPath: "/run/kernel-boot", readOnly: true },
          ],
        },
        expect.objectContaining({ name: "guest-console-log" }),
      ],
      volumes: [
        { name: "launcher", emptyDir: { sizeLimit: "64Mi" } },
        { name: "tmp", emptyDir: { sizeLimit: "64Mi" } },
        { name: "kernel-boot", image: { reference: "guest", pullPolicy: "IfNotPresent" } },
      ],
    },
  });
});

describe("a launcher", () => {
  test("requests KVM unless guests are emulated", () => {
    const { requests, limits } = podOf(aVmi(), false).spec.containers[0]?.resources ?? {};
    for (const devices of [requests, limits]) {
      expect(devices).toMatchObject({
        "devices.kubevirt.io/tun": "1",
        "devices.kubevirt.io/kvm": "1",
      });
    }
  });

  test("has the VMI's scheduling fields and grace period", () => {
    const nodeSelector = { zone: "a" };
    const { spec } = podOf(withSpec({ nodeSelector, terminationGracePeriodSeconds: 0 }));
    expect(spec.nodeSelector).toEqual(nodeSelector);
    expect(spec.terminationGracePeriodSeconds).toBe(5);
    expect(spec.containers[0]?.env).toEqual([{ name: "SHUTDOWN_SECONDS", value: "0" }]);
  });

  test("requests no networks and has no kernel volume if the VMI has none", () => {
    const pod = podOf(withSpec({ domain: {} }));
    expect(pod.metadata.annotations).toEqual({
      "kubevirt.io/domain": "vm1",
      "kubectl.kubernetes.io/default-container": "compute",
    });
    expect(pod.spec.volumes?.map(({ name }) => name)).toEqual(["launcher", "tmp"]);
  });
});

describe("a pod is the launcher of a VMI", () => {
  const vmi = aVmi();
  const own = podOf(vmi);
  const other = (change: Partial<Pod["metadata"]>): Pod => ({
    ...own,
    metadata: { ...own.metadata, ...change },
  });
  const { ownerReferences: owners = [] } = own.metadata;

  test.each([
    { name: "if it was created for the VMI", pod: own, want: true },
    { name: "unless it is in another namespace", pod: other({ namespace: "ns" }), want: false },
    {
      name: "unless it has a different name",
      pod: other({ name: "virt-launcher-vm1-zzzzz" }),
      want: false,
    },
    { name: "unless it has no owner", pod: other({ ownerReferences: [] }), want: false },
    {
      name: "unless it has a different UID",
      pod: other({ ownerReferences: owners.map((owner) => ({ ...owner, uid: "other" })) }),
      want: false,
    },
  ])("$name", ({ pod, want }) => {
    expect(isLauncherOf(pod, vmi)).toBe(want);
  });

  test("not if the VMI was never stored", () => {
    const metadata = { name: "vm1", namespace: "default" };
    const unstored = { ...vmi, metadata };
    expect(isLauncherOf(podOf(unstored), unstored)).toBe(false);
    const pod = other({ ownerReferences: owners.map((owner) => ({ ...owner, uid: "" })) });
    expect(isLauncherOf(pod, { ...vmi, metadata: { ...metadata, uid: "" } })).toBe(false);
  });
});

type Devices = NonNullable<VmiSpec["domain"]["devices"]>;

function loggedOf(devices: Devices, logsConsoles: boolean): boolean {
  const parts = { image: "launcher", securityContext: {}, logsConsoles };
  return buildConsoleLog({ domain: { devices } }, parts).length === 1;
}

test.each<{ devices: Devices; byDefault: boolean; want: boolean }>([
  { devices: {}, byDefault: true, want: true },
  { devices: {}, byDefault: false, want: false },
  { devices: { logSerialConsole: false }, byDefault: true, want: false },
  { devices: { logSerialConsole: true }, byDefault: false, want: true },
  {
    devices: { autoattachSerialConsole: false, logSerialConsole: true },
    byDefault: true,
    want: false,
  },
])(
  "logs the console of $devices, cluster default $byDefault: $want",
  ({ devices, byDefault, want }) => {
    expect(loggedOf(devices, byDefault)).toBe(want);
  },
);

test("the container reads the console's log and has no other access", () => {
  const securityContext = { readOnlyRootFilesystem: true };
  const parts = { image: "launcher", securityContext, logsConsoles: true };
  expect(buildConsoleLog({ domain: {} }, parts)).toMatchObject([
    {
      name: "guest-console-log",
      image: "launcher",
      command: ["/usr/bin/virt-tail"],
      securityContext,
      volumeMounts: [{ name: "launcher", mountPath: "/run/launcher", readOnly: true }],
      resources: { limits: { memory: "32Mi", cpu: "100m", "ephemeral-storage": "51Mi" } },
    },
  ]);
});

interface Row {
  readonly name: string;
  readonly probe: GuestProbe;
  readonly want: object;
}

test.each<Row>([
  {
    name: "a TCP probe is run by the kubelet, 10 s later",
    probe: { tcpSocket: { port: 22 }, initialDelaySeconds: 5, timeoutSeconds: 3 },
    want: { tcpSocket: { port: 22 }, initialDelaySeconds: 15, timeoutSeconds: 3 },
  },
  {
    name: "an HTTP probe is run by the kubelet with all its fields",
    probe: {
      httpGet: { port: 80, path: "/healthz", httpHeaders: [{ name: "a", value: "b" }] },
      periodSeconds: 7,
      successThreshold: 2,
      failureThreshold: 4,
    },
    want: {
      httpGet: { port: 80, path: "/healthz", httpHeaders: [{ name: "a", value: "b" }] },
      periodSeconds: 7,
      successThreshold: 2,
      failureThreshold: 4,
      initialDelaySeconds: 10,
    },
  },
  {
    name: "an exec probe runs through the guest agent, with a timeout of one second more",
    probe: { exec: { command: ["cat", 'a "b"', "$(c)"] }, timeoutSeconds: 5 },
    want: {
      exec: {
        command: [
          "virt-probe",
          "default_vm1",
          "5",
          '{"execute":"guest-exec","arguments":{"path":"cat","arg":["a \\"b\\"","$(c)"],"capture-output":true}}',
        ],
      },
      initialDelaySeconds: 10,
      timeoutSeconds: 6,
    },
  },
  {
    name: "a guest agent probe pings the agent",
    probe: { guestAgentPing: {}, timeoutSeconds: 0 },
    want: {
      exec: { command: ["virt-probe", "default_vm1", "1"] },
      initialDelaySeconds: 10,
      timeoutSeconds: 2,
    },
  },
])("$name", ({ probe, want }) => {
  const vmi = aVmi();
  const spec = { ...vmi.spec, livenessProbe: probe, readinessProbe: probe };
  expect(buildContainerProbes({ ...vmi, spec })).toEqual({
    livenessProbe: want,
    readinessProbe: want,
  });
});

test("has no probes if the guest has none", () => {
  expect(buildContainerProbes(aVmi())).toEqual({});
});
