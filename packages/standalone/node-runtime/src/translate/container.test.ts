// SPDX-License-Identifier: Apache-2.0
import type { Container, Pod, PodVolume, VolumeMount } from "@patchbay/api/kubernetes";
import type { ContainerConfig } from "@patchbay/core/interfaces";
import { describe, expect, test } from "vitest";
import { aContainer, aPod, IMAGE, NODE, UID } from "../testing/pods.ts";
import { toContainerConfig, type ContainerOptions } from "./container.ts";

const SOURCES = {
  configMaps: new Map([["c", { key: "of map", "a=b": "not valid" }]]),
  secrets: new Map([["s", { key: "of secret" }]]),
};

interface Given {
  readonly container?: Partial<Container>;
  readonly spec?: Partial<Pod["spec"]>;
  readonly metadata?: Partial<Pod["metadata"]>;
  readonly more?: Partial<ContainerOptions>;
}

function configOf({ container: change, spec, metadata, more }: Given): ContainerConfig {
  const container = aContainer(change);
  const pod = aPod({ containers: [container], ...spec }, metadata);
  const names = (pod.spec.volumes ?? []).map(({ name }) => [name, `/v/${name}`] as const);
  return toContainerConfig({
    pod,
    container,
    image: IMAGE,
    attempt: 2,
    volumes: new Map(names),
    node: NODE,
    podDirectory: `/p/${UID}`,
    podIps: ["10.0.0.2", "fd00::2"],
    sources: SOURCES,
    ...more,
  });
}

test("a container has the fields of its spec", () => {
  const container = {
    command: ["a"],
    args: ["b"],
    workingDir: "/w",
    stdin: true,
    stdinOnce: true,
    tty: true,
  };
  expect(configOf({ container })).toMatchObject({
    ...container,
    metadata: { name: "compute", attempt: 2 },
    image: IMAGE.id,
    annotations: {},
    labels: {
      "io.kubernetes.pod.name": "a",
      "io.kubernetes.pod.namespace": "ns",
      "io.kubernetes.pod.uid": UID,
      "io.kubernetes.container.name": "compute",
    },
    logPath: "compute/2.log",
  });
  expect(configOf({})).toMatchObject({
    command: [],
    args: [],
    workingDir: "",
    stdin: false,
    stdinOnce: false,
    tty: false,
    env: [],
    devices: [],
    annotations: {},
  });
});

describe("a mount", () => {
  const toMount = (mount: Partial<VolumeMount>, volume: Partial<PodVolume>) => {
    const volumes = [
      { name: "before", configMap: { name: "c" } },
      { name: "v", ...volume },
    ];
    const volumeMounts = [{ name: "v", mountPath: "/m", ...mount }];
    return configOf({ container: { volumeMounts }, spec: { volumes } }).mounts[0];
  };
  const claim = { claimName: "c" };
  test.each<{
    name: string;
    volume: Partial<PodVolume>;
    mount?: Partial<VolumeMount>;
    want: boolean;
  }>([
    { name: "a directory", volume: { emptyDir: {} }, want: false },
    {
      name: "a directory, by its mount",
      volume: { emptyDir: {} },
      mount: { readOnly: true },
      want: true,
    },
    { name: "a ConfigMap", volume: { configMap: { name: "c" } }, want: true },
    { name: "a Secret", volume: { secret: { secretName: "s" } }, want: true },
    { name: "a downward API volume", volume: { downwardAPI: { items: [] } }, want: true },
    { name: "a projected volume", volume: { projected: { sources: [] } }, want: true },
    { name: "an image", volume: { image: { reference: "i" } }, want: true },
    { name: "a claim", volume: { persistentVolumeClaim: claim }, want: false },
    {
      name: "a claim, by its volume",
      volume: { persistentVolumeClaim: { ...claim, readOnly: true } },
      want: true,
    },
  ])("is read-only or not, of $name", ({ volume, mount = {}, want }) => {
    expect(toMount(mount, volume)).toEqual({
      containerPath: "/m",
      hostPath: "/v/v",
      readonly: want,
      propagation: "PRIVATE",
    });
  });

  test.each([
    { mountPropagation: "None", want: "PRIVATE" },
    { mountPropagation: "HostToContainer", want: "HOST_TO_CONTAINER" },
    { mountPropagation: "Bidirectional", want: "BIDIRECTIONAL" },
  ] as const)("has propagation $mountPropagation", ({ mountPropagation, want }) => {
    expect(toMount({ mountPropagation }, { emptyDir: {} })?.propagation).toBe(want);
  });

  test("of a missing volume is rejected", () => {
    const volumeMounts = [{ name: "no", mountPath: "/m" }];
    expect(() => configOf({ container: { volumeMounts } })).toThrow(
      "volumeMounts: volume no does not exist",
    );
  });
});

describe("the /etc/hosts of a container is", () => {
  const hosts = {
    containerPath: "/etc/hosts",
    hostPath: `/p/${UID}/etc-hosts`,
    readonly: true,
    propagation: "PRIVATE",
  };
  test.each<{ name: string; given: Given; want: readonly object[] }>([
    { name: "the pod's", given: {}, want: [hosts] },
    { name: "the node's in its network", given: { spec: { hostNetwork: true } }, want: [] },
    {
      name: "a file from its own volume",
      given: {
        container: { volumeMounts: [{ name: "h", mountPath: "/etc/hosts" }] },
        spec: { volumes: [{ name: "h", emptyDir: {} }] },
      },
      want: [{ ...hosts, hostPath: "/v/h", readonly: false }],
    },
  ])("$name", ({ given, want }) => {
    expect(configOf(given).mounts).toEqual(want);
  });
});

describe("an environment variable", () => {
  const from = (valueFrom: object): Given => ({ container: { env: [{ name: "X", valueFrom }] } });
  const field = (fieldPath: string): Given => from({ fieldRef: { fieldPath } });
  const resource = (name: string, more: object = {}): Partial<Container> => ({
    env: [{ name: "X", valueFrom: { resourceFieldRef: { resource: name, ...more } } }],
    resources: { limits: { cpu: "1500m", "example.com/a.b": "3" }, requests: { cpu: "1" } },
  });
  const labels = { app: "web" };
  const other = aContainer({ name: "o", resources: { limits: { cpu: "4" } } });
  test.each<{ name: string; given: Given; want: string }>([
    { name: "without a value", given: { container: { env: [{ name: "X" }] } }, want: "" },
    { name: "from the name", given: field("metadata.name"), want: "a" },
    { name: "from the namespace", given: field("metadata.namespace"), want: "ns" },
    { name: "from the uid", given: field("metadata.uid"), want: UID },
    { name: "from the node", given: field("spec.nodeName"), want: "node-1" },
    {
      name: "from the account",
      given: { ...field("spec.serviceAccountName"), spec: { serviceAccountName: "me" } },
      want: "me",
    },
    { name: "from no account", given: field("spec.serviceAccountName"), want: "default" },
    { name: "from the node's address", given: field("status.hostIP"), want: "192.0.2.1" },
    { name: "from the node's addresses", given: field("status.hostIPs"), want: "192.0.2.1" },
    { name: "from the address", given: field("status.podIP"), want: "10.0.0.2" },
    { name: "from the addresses", given: field("status.podIPs"), want: "10.0.0.2,fd00::2" },
    {
      name: "from no address",
      given: { ...field("status.podIP"), more: { podIps: [] } },
      want: "",
    },
    {
      name: "from a label",
      given: { ...field("metadata.labels['app']"), metadata: { labels } },
      want: "web",
    },
    {
      name: "from an annotation",
      given: {
        ...field("metadata.annotations['app']"),
        metadata: { labels, annotations: { app: "y" } },
      },
      want: "y",
    },
    { name: "from a missing label", given: field("metadata.labels['no']"), want: "" },
    { name: "from a missing annotation", given: field("metadata.annotations['no']"), want: "" },
    { name: "from a limit, rounded up", given: { container: resource("limits.cpu") }, want: "2" },
    {
      name: "from a limit in its unit",
      given: { container: resource("limits.cpu", { divisor: "1m" }) },
      want: "1500",
    },
    {
      name: "from a limit in no unit",
      given: { container: resource("limits.cpu", { divisor: "0" }) },
      want: "2",
    },
    { name: "from a request", given: { container: resource("requests.cpu") }, want: "1" },
    {
      name: "from a missing request",
      given: { container: resource("requests.memory") },
      want: "0",
    },
    {
      name: "from a resource with dots",
      given: { container: resource("limits.example.com/a.b") },
      want: "3",
    },
    {
      name: "from the default limit of memory",
      given: { container: resource("limits.memory", { divisor: "1Mi" }) },
      want: "512",
    },
    {
      name: "from another container",
      given: {
        container: resource("limits.cpu", { containerName: "o" }),
        spec: { containers: [aContainer(), other] },
      },
      want: "4",
    },
    {
      name: "from an init container",
      given: {
        container: resource("limits.cpu", { containerName: "o" }),
        spec: { initContainers: [other] },
      },
      want: "4",
    },
  ])("$name", ({ given, want }) => {
    expect(configOf(given).env).toEqual([["X", want]]);
  });

  const optional = { name: "no", optional: true };
  test.each<{ name: string; container: Partial<Container>; want: readonly (readonly string[])[] }>([
    {
      name: "for every key that is a valid variable name",
      container: {
        envFrom: [{ configMapRef: { name: "c" } }, { secretRef: { name: "s" }, prefix: "S_" }],
      },
      want: [
        ["key", "of map"],
        ["S_key", "of secret"],
      ],
    },
    {
      name: "for no missing optional object",
      container: { envFrom: [{ configMapRef: optional }, { secretRef: optional }, {}] },
      want: [],
    },
    {
      name: "for no missing optional key",
      container: {
        env: [
          { name: "A", valueFrom: { configMapKeyRef: { ...optional, name: "c", key: "no" } } },
          { name: "B", valueFrom: { configMapKeyRef: { ...optional, key: "no" } } },
          { name: "C", value: "c" },
        ],
      },
      want: [["C", "c"]],
    },
    {
      name: "once with the last value if it is set twice",
      container: { envFrom: [{ secretRef: { name: "s" } }], env: [{ name: "key", value: "own" }] },
      want: [["key", "own"]],
    },
  ])("exists $name", ({ container, want }) => {
    expect(configOf({ container }).env).toEqual(want);
  });

  const key = (name: string, which = "key") => ({ name, key: which });
  test.each<{ given: Given; want: string }>([
    { given: field("spec.hostname"), want: "fieldPath spec.hostname is not supported" },
    { given: field("metadata.labels"), want: "fieldPath metadata.labels is not supported" },
    { given: field("xmetadata.labels['a']"), want: "is not supported" },
    { given: field("metadata.labels['a']x"), want: "is not supported" },
    { given: field("metadata.labels['']"), want: "is not supported" },
    { given: from({}), want: "fieldPath  is not supported" },
    { given: from({ configMapKeyRef: key("no") }), want: "configMap no does not exist" },
    { given: from({ configMapKeyRef: key("c", "no") }), want: "configMap c has no no" },
    { given: from({ configMapKeyRef: key("c", "toString") }), want: "configMap c has no toString" },
    { given: from({ secretKeyRef: key("c") }), want: "secret c does not exist" },
    { given: from({ secretKeyRef: key("s", "no") }), want: "secret s has no no" },
    {
      given: { container: { envFrom: [{ secretRef: { name: "c" } }] } },
      want: "secret c does not exist",
    },
    {
      given: { container: { envFrom: [{ configMapRef: { name: "s" } }] } },
      want: "configMap s does not exist",
    },
    {
      given: { container: { env: [{ name: "a=b" }] } },
      want: '"a=b" is not a valid variable name',
    },
    { given: { container: { env: [{ name: "" }] } }, want: '"" is not a valid variable name' },
  ])("rejects the container: $want", ({ given, want }) => {
    expect(() => configOf(given)).toThrow(want);
  });

  test.each([
    { apiServer: { host: "192.0.2.9" }, want: 0 },
    { apiServer: { port: "6443" }, want: 0 },
    { apiServer: { host: "192.0.2.9", port: "6443" }, want: 3 },
  ])("exists for the API server only with host and port: $apiServer", ({ apiServer, want }) => {
    // One member may be missing here.
    const node = { ...NODE, apiServer } as typeof NODE;
    expect(configOf({ more: { node } }).env).toHaveLength(want);
  });
});
