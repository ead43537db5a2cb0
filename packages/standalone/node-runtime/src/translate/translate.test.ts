// SPDX-License-Identifier: Apache-2.0
import type { Container, Pod } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import { describe, expect, test } from "vitest";
import { aContainer, aPod, IMAGE, NODE, UID } from "../testing/pods.ts";
import { toContainerConfig, type ContainerOptions } from "./container.ts";
import { expand } from "./environment.ts";
import { printHosts, toSandboxConfig } from "./sandbox.ts";
import { findMemoryLimit, findQosClass, toContainerResources } from "./resources.ts";

const OWN_NETWORKS = { ...NODE, ownNetworkRuntime: "own-network" };

function make(container: Container, change: Partial<ContainerOptions> = {}): ContainerOptions {
  const pod = change.pod ?? aPod({ containers: [container] });
  const sources = { configMaps: new Map(), secrets: new Map() };
  return {
    pod,
    container,
    image: IMAGE,
    attempt: 0,
    volumes: new Map(),
    podDirectory: `/p/${UID}`,
    node: NODE,
    podIps: ["10.0.0.2"],
    sources,
    ...change,
  };
}

function productPod(spec: Partial<Pod["spec"]>): Pod {
  const serviceAccountName = "virt-handler";
  return aPod({ securityContext: {}, ...spec, serviceAccountName }, { namespace: "patchbay" });
}

describe("a sandbox", () => {
  test("has the pod's names and one parent cgroup, and no access to the node", () => {
    expect(toSandboxConfig(aPod({}, { labels: { app: "x" } }), 2, NODE)).toEqual({
      metadata: { name: "a", namespace: "ns", uid: UID, attempt: 2 },
      hostname: "a",
      logDirectory: `/logs/ns_a_${UID}`,
      labels: {
        app: "x",
        "io.kubernetes.pod.name": "a",
        "io.kubernetes.pod.namespace": "ns",
        "io.kubernetes.pod.uid": UID,
      },
      annotations: {},
      cgroupParent: "/patchbay",
      sysctls: {},
      security: {
        namespaces: { network: "POD", pid: "CONTAINER", ipc: "POD" },
        runAsUser: 107,
        runAsGroup: 107,
        supplementalGroups: [107],
        readonlyRootfs: true,
        privileged: false,
        seccomp: "RuntimeDefault",
      },
    });
  });

  test("has labels that pod labels cannot override", () => {
    const labels = { "io.kubernetes.pod.uid": "another" };
    expect(toSandboxConfig(aPod({}, { labels }), 0, NODE).labels).toMatchObject({
      "io.kubernetes.pod.uid": UID,
    });
  });

  test("has a host name that the kernel accepts", () => {
    const config = toSandboxConfig(aPod({}, { name: `${"a".repeat(62)}-b` }), 0, NODE);
    expect(config.hostname).toBe("a".repeat(62));
  });

  test("uses the name servers of the pod", () => {
    const dnsConfig = { nameservers: ["192.0.2.53"], options: [{ name: "ndots", value: "2" }] };
    expect(toSandboxConfig(aPod({ dnsConfig }), 0, NODE).dns).toEqual({
      servers: ["192.0.2.53"],
      searches: [],
      options: ["ndots:2"],
    });
  });

  test.each([
    { name: "own default network", spec: {}, node: OWN_NETWORKS, want: "own-network" },
    { name: "own default network elsewhere", spec: {}, node: NODE, want: undefined },
    { name: "host network", spec: { hostNetwork: true }, node: OWN_NETWORKS, want: undefined },
  ])("with $name has the runtime handler $want", ({ spec, node, want }) => {
    const annotations = { "v1.multus-cni.io/default-network": "ns/blue" };
    expect(toSandboxConfig(aPod(spec, { annotations }), 0, node).runtimeHandler).toBe(want);
    expect(toSandboxConfig(aPod(spec), 0, node).runtimeHandler).toBeUndefined();
  });

  test("of Patchbay is in the node's namespaces on request", () => {
    const spec = { hostNetwork: true, hostPID: true, hostIPC: true };
    const config = toSandboxConfig(productPod(spec), 0, NODE);
    expect(config.security.namespaces).toEqual({ network: "NODE", pid: "NODE", ipc: "NODE" });
    expect(config.hostname).toBe("node-1");
  });
});

describe("a container", () => {
  test("has no field that the spec does not set", () => {
    const { security, mounts, devices, labels, logPath } = toContainerConfig(make(aContainer()));
    expect(security).toMatchObject({
      capabilities: { add: [], drop: ["ALL"] },
      privileged: false,
      noNewPrivileges: true,
      runAsUser: 107,
      runAsGroup: 107,
      supplementalGroups: [107],
      seccomp: "RuntimeDefault",
    });
    expect(security.maskedPaths).toContain("/proc/kcore");
    expect(security.readonlyPaths).toContain("/proc/sys");
    expect(devices).toEqual([]);
    expect(mounts.map(({ containerPath }) => containerPath)).toEqual(["/etc/hosts"]);
    expect(labels["io.kubernetes.container.name"]).toBe("compute");
    expect(logPath).toBe("compute/0.log");
  });

  test("gets the devices of the resources that it requests", () => {
    const limits = {
      "devices.kubevirt.io/tun": "1",
      "devices.kubevirt.io/kvm": "1",
      "devices.kubevirt.io/vhost-net": "1",
    };
    const { devices } = toContainerConfig(make(aContainer({ resources: { limits } })));
    expect(devices.map(({ hostPath }) => hostPath)).toEqual([
      "/dev/kvm",
      "/dev/net/tun",
      "/dev/vhost-net",
    ]);
  });

  test("mounts one key of a ConfigMap as a file", () => {
    const volumes = [{ name: "scripts", configMap: { name: "c" } }];
    const mount = { name: "scripts", mountPath: "/usr/bin/hook", subPath: "my.sh" };
    const container = aContainer({ volumeMounts: [mount] });
    const given = { ...make(container), pod: aPod({ volumes, containers: [container] }) };
    const [made] = toContainerConfig({ ...given, volumes: new Map([["scripts", "/v/c"]]) }).mounts;
    expect(made).toMatchObject({
      containerPath: "/usr/bin/hook",
      hostPath: "/v/c/my.sh",
      readonly: true,
    });
  });

  test("gets the pod's socket directory read-only on request", () => {
    const limits = { "vhost-user.patchbay.io/sockets": "2" };
    const pod = aPod({ containers: [] });
    const uid = pod.metadata.uid ?? "";
    const { mounts } = toContainerConfig(make(aContainer({ resources: { limits } }), { pod }));
    expect(mounts).toContainEqual({
      containerPath: `/run/patchbay/vhost-user/${uid}`,
      hostPath: `/run/patchbay/vhost-user-shown/${uid}`,
      readonly: true,
      propagation: "PRIVATE",
    });
  });

  test("mounts volumes, and generated contents read-only", () => {
    const volumes = [
      { name: "data", emptyDir: {} },
      { name: "kernel", image: { reference: "guest" } },
    ];
    const container = aContainer({
      volumeMounts: [
        { name: "data", mountPath: "/data" },
        { name: "kernel", mountPath: "/kernel" },
      ],
    });
    const pod = aPod({ containers: [container], volumes });
    const paths = new Map([
      ["data", "/p/data"],
      ["kernel", "/p/kernel"],
    ]);
    const { mounts } = toContainerConfig(make(container, { pod, volumes: paths }));
    expect(mounts.slice(0, 2)).toEqual([
      { containerPath: "/data", hostPath: "/p/data", readonly: false, propagation: "PRIVATE" },
      { containerPath: "/kernel", hostPath: "/p/kernel", readonly: true, propagation: "PRIVATE" },
    ]);
  });

  test("has its claims as mounts or devices, with read-only claims unchangeable", () => {
    const names = ["files", "fixed", "bytes", "locked"];
    const readOnly = new Set(["fixed", "locked"]);
    const volumes = names.map((name) => ({
      name,
      persistentVolumeClaim: { claimName: name, readOnly: readOnly.has(name) },
    }));
    const container = aContainer({
      volumeMounts: names.slice(0, 2).map((name) => ({ name, mountPath: `/${name}` })),
      volumeDevices: names.slice(2).map((name) => ({ name, devicePath: `/dev/${name}` })),
    });
    const pod = aPod({ containers: [container], volumes });
    const paths = new Map(names.map((name) => [name, `/host/${name}`]));
    const { mounts, devices } = toContainerConfig(make(container, { pod, volumes: paths }));
    expect(mounts.slice(0, 2).map(({ readonly }) => readonly)).toEqual([false, true]);
    expect(devices).toEqual([
      { containerPath: "/dev/bytes", hostPath: "/host/bytes", permissions: "rw" },
      { containerPath: "/dev/locked", hostPath: "/host/locked", permissions: "r" },
    ]);
  });

  test.each([
    { name: "not a claim", volumes: [{ name: "v", emptyDir: {} }] },
    { name: "none", volumes: [] },
  ])("has no device that is $name", ({ volumes }) => {
    const container = aContainer({ volumeDevices: [{ name: "v", devicePath: "/dev/v" }] });
    const pod = aPod({ containers: [container], volumes });
    const paths = new Map([["v", "/p/v"]]);
    expect(() => toContainerConfig(make(container, { pod, volumes: paths }))).toThrow(
      "volumeDevices: volume v is not a claim",
    );
  });

  test.each<{
    name: string;
    image: Partial<typeof IMAGE>;
    context: Pod["spec"]["securityContext"];
  }>([
    { name: "root by its image", image: { uid: 0 }, context: {} },
    { name: "an empty user name", image: { username: "" }, context: {} },
    { name: "a user name from its image", image: { username: "daemon" }, context: {} },
    { name: "a number that exceeds the range of user IDs", image: { uid: 2 ** 32 }, context: {} },
    { name: "a number below all", image: { uid: -1 }, context: {} },
    { name: "root from the pod's securityContext", image: {}, context: { runAsUser: 0 } },
  ])("does not run as $name", ({ image, context }) => {
    const { uid, ...rest } = IMAGE;
    const found = { ...rest, ...("username" in image ? {} : { uid: uid ?? 0 }), ...image };
    const container = aContainer();
    const pod = aPod({ containers: [container], securityContext: context ?? {} });
    expect(() => toContainerConfig(make(container, { pod, image: found }))).toThrow(AppError);
  });

  test.each<{ name: string; context: Pod["spec"]["securityContext"]; want: readonly number[] }>([
    { name: "its image's user", context: {}, want: [107, 107] },
    { name: "the pod's user", context: { runAsUser: 1000 }, want: [1000, 1000] },
    { name: "a group of its own", context: { runAsGroup: 2000 }, want: [107, 2000] },
  ])("has exactly one group, never the image's, with $name", ({ context, want }) => {
    const container = aContainer();
    const pod = aPod({ containers: [container], securityContext: context ?? {} });
    const { security } = toContainerConfig(make(container, { pod }));
    expect([security.runAsUser, security.runAsGroup]).toEqual(want);
    expect(security.supplementalGroups).toEqual([]);
  });

  test("of Patchbay has the requested settings", () => {
    const container = aContainer({
      securityContext: { privileged: true, capabilities: { add: ["SYS_ADMIN"] } },
    });
    const pod = productPod({ containers: [container] });
    const image = { ...IMAGE, uid: 0 };
    expect(toContainerConfig(make(container, { pod, image })).security).toMatchObject({
      privileged: true,
      runAsUser: 0,
      runAsGroup: 0,
      seccomp: "Unconfined",
      noNewPrivileges: false,
      capabilities: { add: ["SYS_ADMIN"], drop: [] },
      maskedPaths: [],
      readonlyPaths: [],
    });
  });

  test("records how long its start was delayed", () => {
    const { annotations } = toContainerConfig(make(aContainer(), { delaySeconds: 20, attempt: 3 }));
    expect(annotations).toEqual({ "patchbay.io/restart-delay-seconds": "20" });
  });
});

describe("environment variables", () => {
  const sources = {
    configMaps: new Map([["c", { key: "of map" }]]),
    secrets: new Map([["s", { key: "of secret" }]]),
  };

  test("have the referenced values in order, the API server's address first", () => {
    const container = aContainer({
      envFrom: [{ prefix: "P_", configMapRef: { name: "c" } }],
      env: [
        { name: "A", value: "a" },
        { name: "B", value: "$(A)-$$(A)-$(NONE)" },
        { name: "NAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
        { name: "IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
        { name: "MAP", valueFrom: { configMapKeyRef: { name: "c", key: "key" } } },
        { name: "SECRET", valueFrom: { secretKeyRef: { name: "s", key: "key" } } },
        { name: "OPTIONAL", valueFrom: { secretKeyRef: { name: "no", key: "k", optional: true } } },
        {
          name: "MEMORY",
          valueFrom: { resourceFieldRef: { resource: "limits.memory", divisor: "1Mi" } },
        },
      ],
      command: ["run", "$(A)"],
    });
    const node = { ...NODE, apiServer: { host: "192.0.2.9", port: "6443" } };
    const config = toContainerConfig(make(container, { node, sources }));
    expect(config.env).toEqual([
      ["KUBERNETES_SERVICE_HOST", "192.0.2.9"],
      ["KUBERNETES_SERVICE_PORT", "6443"],
      ["KUBERNETES_SERVICE_PORT_HTTPS", "6443"],
      ["P_key", "of map"],
      ["A", "a"],
      ["B", "a-$(A)-$(NONE)"],
      ["NAME", "a"],
      ["IP", "10.0.0.2"],
      ["MAP", "of map"],
      ["SECRET", "of secret"],
      ["MEMORY", "512"],
    ]);
    expect(config.command).toEqual(["run", "a"]);
  });

  test.each<{ name: string; env: NonNullable<Container["env"]>[number] }>([
    {
      name: "a missing ConfigMap",
      env: { name: "X", valueFrom: { configMapKeyRef: { name: "z", key: "k" } } },
    },
    {
      name: "a missing key",
      env: { name: "X", valueFrom: { secretKeyRef: { name: "s", key: "k" } } },
    },
    {
      name: "toString",
      env: { name: "X", valueFrom: { secretKeyRef: { name: "s", key: "toString" } } },
    },
    {
      name: "an unsupported field",
      env: { name: "X", valueFrom: { fieldRef: { fieldPath: "spec.x" } } },
    },
    { name: "an invalid name", env: { name: "A=B", value: "" } },
  ])("that cannot be resolved are reported: $name", ({ env }) => {
    expect(() => toContainerConfig(make(aContainer({ env: [env] }), { sources }))).toThrow(
      AppError,
    );
  });

  test("are expanded once", () => {
    const variables = new Map([["A", "$(B)"]]);
    expect(expand("$(A) $$(A) $", variables)).toBe("$(B) $(A) $");
  });

  test.each([
    { letters: 131_069, fits: true },
    { letters: 131_070, fits: false },
  ])("fit the kernel's limit with $letters letters and two: $fits", (row) => {
    const variables = new Map([["A", "a".repeat(row.letters)]]);
    expect(expand("-$(A)-", variables) !== undefined).toBe(row.fits);
  });

  test.each([
    {
      name: "variables that double repeatedly",
      env: Array.from({ length: 40 }, (_unused, index) => ({
        name: `V${String(index)}`,
        value: index === 0 ? "aaaaaaaa" : `$(V${String(index - 1)})`.repeat(2),
      })),
      says: "with variable V14 its environment exceeds",
    },
    {
      name: "many that are long",
      env: Array.from({ length: 40 }, (_unused, index) => ({
        name: `V${String(index)}`,
        value: "a".repeat(100_000),
      })),
      says: "with variable V20 its environment exceeds",
    },
    {
      name: "a command",
      env: [{ name: "V", value: "a".repeat(100_000) }],
      command: ["$(V)$(V)"],
      says: "its command exceeds",
    },
  ])("that are too long are rejected: $name", ({ env, command, says }) => {
    const container = aContainer({ env, ...(command === undefined ? {} : { command }) });
    expect(() => toContainerConfig(make(container, { sources }))).toThrow(says);
  });
});

describe("resources", () => {
  test.each([
    {
      name: "are BestEffort without requests",
      resources: {},
      want: "BestEffort",
      shares: 2,
      oom: 1000,
    },
    {
      name: "are Burstable with a memory request",
      resources: { requests: { memory: "1Gi" } },
      want: "Burstable",
      shares: 2,
      oom: 750,
    },
    {
      name: "are Guaranteed with all limits",
      resources: { limits: { cpu: "1500m", memory: "1Gi" } },
      want: "Guaranteed",
      shares: 1536,
      oom: -997,
    },
  ])("$name", ({ resources, want, shares, oom }) => {
    const container = aContainer({ resources });
    const pod = aPod({ containers: [container] });
    expect(findQosClass(pod)).toBe(want);
    expect(toContainerResources(pod, container, NODE.memoryBytes)).toMatchObject({
      cpuShares: shares,
      oomScoreAdj: oom,
    });
  });

  test("a CPU limit is a quota", () => {
    const container = aContainer({ resources: { limits: { cpu: "250m" } } });
    const pod = aPod({ containers: [container] });
    expect(toContainerResources(pod, container, 1)).toMatchObject({
      cpuQuota: 25_000,
      cpuPeriod: 100_000,
    });
  });

  test.each([
    { name: "none", resources: {}, want: 512 * 2 ** 20 },
    { name: "its own", resources: { limits: { memory: "1Gi" } }, want: 2 ** 30 },
    {
      name: "a request above the default",
      resources: { requests: { memory: "2Gi" } },
      want: 2 ** 31,
    },
  ])("each container has a memory limit: $name", ({ resources, want }) => {
    expect(findMemoryLimit(aContainer({ resources }))).toBe(want);
  });
});

test("a pod has its own hosts file", () => {
  expect(printHosts("a", ["10.0.0.2"])).toBe(
    "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n10.0.0.2\ta\n",
  );
});
