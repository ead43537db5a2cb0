// SPDX-License-Identifier: Apache-2.0
// Which pods does a cluster run, as whom, and with what of the node? A table, so that a change of it is seen.
import { names } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { createFiles } from "@patchbay/os";
import { describe, expect, test } from "vitest";
import { parseManifests, readManifests } from "./manifests.ts";

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
}

interface ContainerSpec {
  readonly name: string;
  readonly image: string;
  readonly imagePullPolicy: string;
  readonly args: readonly string[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly startupProbe: Probe;
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
  readonly resources: {
    readonly requests: Readonly<Record<string, string>>;
    readonly limits: Readonly<Record<string, string>>;
  };
  readonly securityContext: Readonly<Record<string, unknown>> & {
    readonly capabilities: { readonly drop: readonly string[]; readonly add?: readonly string[] };
  };
  readonly volumeMounts?: readonly {
    readonly name: string;
    readonly mountPath: string;
    readonly readOnly?: boolean;
    readonly mountPropagation?: string;
  }[];
}

interface Workload extends KubeObject {
  readonly spec: {
    readonly replicas?: number;
    readonly updateStrategy?: object;
    readonly strategy?: { readonly type: string };
    readonly template: {
      readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
      readonly spec: {
        readonly serviceAccountName: string;
        readonly hostPID?: boolean;
        readonly hostNetwork?: boolean;
        readonly hostIPC?: boolean;
        readonly securityContext: Readonly<Record<string, unknown>>;
        readonly containers: readonly ContainerSpec[];
        readonly volumes?: readonly {
          readonly name: string;
          readonly hostPath?: { readonly path: string; readonly type: string };
        }[];
      };
    };
  };
}

const objects = parseManifests(await readManifests(createFiles(), "base"));

function isWorkload(object: KubeObject): object is Workload {
  return object.kind === "Deployment" || object.kind === "DaemonSet";
}

const workloads = objects.filter(isWorkload);

function findPodSpec(name: string) {
  const found = workloads.find(({ metadata }) => metadata.name === name);
  const [container] = found?.spec.template.spec.containers ?? [];
  if (found === undefined || container === undefined) throw new Error(`there is no ${name}`);
  return { ...found.spec.template, workload: found, container };
}

/** `path>mountPath flags` of each directory of the host. */
function listHostPaths(name: string): readonly string[] {
  const { spec, container } = findPodSpec(name);
  return (container.volumeMounts ?? []).flatMap((mount) => {
    const path = spec.volumes?.find((volume) => volume.name === mount.name)?.hostPath?.path;
    if (path === undefined) return [];
    const flags = [
      path === mount.mountPath ? path : `${path}>${mount.mountPath}`,
      mount.readOnly === true ? "ro" : "rw",
      ...(mount.mountPropagation === undefined ? [] : [mount.mountPropagation]),
    ];
    return [flags.join(" ")];
  });
}

test("has four services, with two replicas each for those that do not run per node", () => {
  expect(workloads.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([
    "DaemonSet net-agent",
    "Deployment virt-api",
    "Deployment virt-controller",
    "DaemonSet virt-handler",
  ]);
  const deployments = workloads.filter(({ kind }) => kind === "Deployment");
  expect(deployments.map(({ spec }) => [spec.replicas, spec.strategy?.type])).toEqual([
    [2, "RollingUpdate"],
    [2, "RollingUpdate"],
  ]);
});

test("updates one node at a time, and a Deployment's new pods before its old ones end", () => {
  const oneNode = { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 1, maxSurge: 0 } };
  const newFirst = { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } };
  expect(workloads.map(({ spec }) => spec.updateStrategy ?? spec.strategy)).toEqual([
    oneNode,
    newFirst,
    newFirst,
    oneNode,
  ]);
});

describe.each(workloads.map(({ metadata }) => metadata.name))("%s", (name) => {
  const { spec, container } = findPodSpec(name);

  test("runs under its own account with the product's image", () => {
    expect(spec.serviceAccountName).toBe(name);
    expect(spec.containers).toHaveLength(1);
    expect(container).toMatchObject({
      name,
      image: names.PATCHBAY_IMAGE,
      imagePullPolicy: "IfNotPresent",
    });
  });

  test("has a read-only image, no privilege escalation, seccomp, and drops unused capabilities", () => {
    expect(container.securityContext).toMatchObject({
      readOnlyRootFilesystem: true,
      allowPrivilegeEscalation: false,
    });
    expect(container.securityContext).not.toHaveProperty("privileged");
    expect(container.securityContext.capabilities.drop).toEqual(["ALL"]);
    expect(spec.securityContext).toMatchObject({ seccompProfile: { type: "RuntimeDefault" } });
    expect([spec.hostNetwork, spec.hostIPC]).toEqual([undefined, undefined]);
  });

  test("is probed on its health port", () => {
    const port = container.ports.find((one) => one.name === "health")?.containerPort;
    expect(container.args).toContain(`--health-port=${String(port)}`);
    expect(container.startupProbe.httpGet).toEqual({ path: "/healthz", port: "health" });
    expect(container.livenessProbe.httpGet).toEqual({ path: "/healthz", port: "health" });
    expect(container.readinessProbe.httpGet).toEqual({ path: "/readyz", port: "health" });
  });

  test("serves authorized metrics on their own port", () => {
    const port = container.ports.find((one) => one.name === "metrics")?.containerPort;
    const flags = container.args.filter((flag) => flag.startsWith("--metrics"));
    expect(flags).toEqual([`--metrics-port=${String(port)}`, "--metrics-secure"]);
  });

  test("requests resources, and limits its memory", () => {
    expect(Object.keys(container.resources.requests)).toEqual(["cpu", "memory"]);
    expect(Object.keys(container.resources.limits)).toEqual(["memory"]);
  });

  test("mounts each of its volumes", () => {
    const mounted = (container.volumeMounts ?? []).map((mount) => mount.name);
    expect(mounted).toEqual((spec.volumes ?? []).map((volume) => volume.name));
  });
});

test.each([
  { name: "virt-api", user: 65532, add: [], hostPID: undefined, hostPaths: [] },
  { name: "virt-controller", user: 65532, add: [], hostPID: undefined, hostPaths: [] },
  {
    name: "virt-handler",
    user: 0,
    hostPID: true,
    add: [
      "NET_ADMIN",
      "NET_BIND_SERVICE",
      "NET_RAW",
      "SYS_ADMIN",
      "SYS_CHROOT",
      "SYS_PTRACE",
      "DAC_OVERRIDE",
      "MKNOD",
      "CHOWN",
      "SETUID",
      "SETGID",
      "SETPCAP",
      "KILL",
    ],
    hostPaths: [
      "/var/lib/kubelet/pods rw HostToContainer",
      "/var/lib/patchbay/virt-handler rw",
      "/var/lib/kubelet/device-plugins rw",
      "/var/lib/kubelet/pod-resources ro",
      "/dev/net/tun rw",
      // CRI-O names no process of a sandbox, only the path of its namespace.
      "/run/netns ro HostToContainer",
    ],
  },
  {
    name: "net-agent",
    user: 0,
    hostPID: true,
    add: ["NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE", "DAC_OVERRIDE", "KILL"],
    hostPaths: [
      "/var/lib/net-agent rw",
      "/var/lib/cni rw",
      "/etc/cni/multus/net.d ro",
      "/var/lib/kubelet/pod-resources ro",
      "/var/run/k8s.cni.cncf.io/devinfo rw",
      "/run/netns ro HostToContainer",
    ],
  },
])("$name runs as $user", ({ name, user, add, hostPID, hostPaths }) => {
  const { spec, container } = findPodSpec(name);
  const context = { ...spec.securityContext, ...container.securityContext };
  expect(context).toMatchObject({ runAsUser: user });
  expect(context["runAsNonRoot"]).toBe(user === 0 ? undefined : true);
  expect(container.securityContext.capabilities.add ?? []).toEqual(add);
  expect(spec.hostPID).toBe(hostPID);
  expect(listHostPaths(name)).toEqual(hostPaths);
});

test("only root reads virt-handler's key", () => {
  const volume = findPodSpec("virt-handler").spec.volumes?.find(
    ({ name }) => name === "certificates",
  );
  expect(volume).toMatchObject({ secret: { defaultMode: 0o400 } });
});

test("every object has the product's label", () => {
  const unmarked = objects.filter(
    ({ metadata }) => metadata.labels?.[names.PART_OF_LABEL] !== names.PRODUCT,
  );
  expect(unmarked).toEqual([]);
});

test("each capability has its reason in a comment above it", async () => {
  const manifests = await readManifests(createFiles(), "base");
  const lines = manifests.flatMap(({ text }) => text.split("\n"));
  const bare = lines.filter(
    (line, index) =>
      /^ {16}- [A-Z_]+$/.test(line) && !/^ {16}(#|- SET[UG]ID)/.test(lines[index - 1] ?? ""),
  );
  expect(lines.filter((line) => /^ {16}- [A-Z_]+$/.test(line))).toHaveLength(20);
  expect(bare).toEqual([]);
});
