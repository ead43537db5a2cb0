// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import {
  toContainerStatus,
  toContainerSummary,
  toContainerWrites,
  toImage,
  toProblem,
  toSandboxStatus,
  toSandboxSummary,
  parseSandboxInfo,
} from "./from-wire.ts";
import type { WireSandbox, WireSandboxStatus } from "./messages.ts";

const LISTED: WireSandbox = {
  id: "box",
  metadata: { name: "pod", namespace: "ns1", uid: "uid-1", attempt: 2 },
  state: "SANDBOX_READY",
  createdAt: "1795340649794209456",
  labels: { app: "one" },
  annotations: { note: "two" },
};
const SANDBOX: WireSandboxStatus = {
  ...LISTED,
  network: { ip: "10.0.0.1", additionalIps: [{ ip: "fd00::1" }] },
  linux: { namespaces: { options: { network: "POD" } } },
};
const SHOWN = { ...LISTED, state: "READY", createdAt: 1795340649794209456n };
const info = { info: JSON.stringify({ pid: 7 }) };
const path = "/run/netns/one";
const withPath = {
  info: JSON.stringify({
    pid: 7,
    runtimeSpec: { linux: { namespaces: [{ type: "network", path }] } },
  }),
};
const NODE = { namespaces: { options: { network: "NODE" } } };

test.each([
  {
    name: "with the fields of the verbose part",
    answer: { status: SANDBOX, info: withPath },
    want: { ...SHOWN, ips: ["10.0.0.1", "fd00::1"], pid: 7, netnsPath: path },
  },
  {
    name: "with the process's namespace if no path is reported",
    answer: { status: SANDBOX, info },
    want: { ...SHOWN, ips: ["10.0.0.1", "fd00::1"], pid: 7, netnsPath: "/proc/7/ns/net" },
  },
  {
    name: "in the node's network, without path and addresses",
    answer: { status: { ...SANDBOX, linux: NODE }, info: withPath },
    want: { ...SHOWN, ips: [], pid: 7 },
  },
  {
    name: "that is not ready",
    answer: {
      status: {
        ...SANDBOX,
        state: "SANDBOX_NOTREADY" as const,
        network: { ip: "", additionalIps: [] },
      },
      info: {},
    },
    want: { ...SHOWN, state: "NOTREADY", ips: [] },
  },
  {
    name: "with only an ID",
    answer: {
      status: { ...SANDBOX, metadata: null, network: null, linux: null },
      info: {},
    },
    want: { ...SHOWN, metadata: { name: "", namespace: "", uid: "", attempt: 0 }, ips: [] },
  },
  { name: "that is missing", answer: { status: null, info: {} }, want: undefined },
])("parses the status of a sandbox: $name", ({ answer, want }) => {
  expect(toSandboxStatus(answer)).toEqual(want);
});

test("parses a sandbox in a list", () => {
  expect(toSandboxSummary(LISTED)).toEqual(SHOWN);
});

const CONTAINER = {
  id: "c",
  metadata: { name: "main", attempt: 3 },
  image: { image: "localhost/one:1" },
  createdAt: "5",
  labels: {},
  annotations: {},
};

test.each([
  ["CONTAINER_CREATED", "CREATED"],
  ["CONTAINER_RUNNING", "RUNNING"],
  ["CONTAINER_EXITED", "EXITED"],
  ["CONTAINER_UNKNOWN", "UNKNOWN"],
] as const)("a container in a list with state %s is %s", (state, want) => {
  expect(toContainerSummary({ ...CONTAINER, podSandboxId: "box", state })).toEqual({
    id: "c",
    sandboxId: "box",
    name: "main",
    attempt: 3,
    image: "localhost/one:1",
    createdAt: 5n,
    labels: {},
    annotations: {},
    state: want,
  });
});

test("parses the status of a container", () => {
  const rest = { exitCode: 137, reason: "OOMKilled", message: "m", imageRef: "r", logPath: "/l" };
  const times = { startedAt: "6", finishedAt: "7" };
  expect(
    toContainerStatus({
      ...CONTAINER,
      ...rest,
      ...times,
      state: "CONTAINER_EXITED",
      metadata: null,
      image: null,
    }),
  ).toEqual({
    id: "c",
    name: "",
    attempt: 0,
    image: "",
    state: "EXITED",
    labels: {},
    annotations: {},
    createdAt: 5n,
    startedAt: 6n,
    finishedAt: 7n,
    ...rest,
  });
});

test.each([
  [{ value: "107" }, { uid: 107 }],
  [null, {}],
])("parses an image whose user is %j", (uid, want) => {
  const image = { id: "i", repoTags: ["t"], repoDigests: ["d"], size: "210000000", username: "" };
  expect(toImage({ ...image, uid })).toEqual({
    id: "i",
    tags: ["t"],
    digests: ["d"],
    bytes: 210_000_000,
    username: "",
    ...want,
  });
});

const READY = { type: "RuntimeReady", status: true, reason: "", message: "" };
const NO_NETWORK = {
  type: "NetworkReady",
  status: false,
  reason: "NetworkPluginNotReady",
  message: "cni plugin not initialized",
};

test.each([
  { name: "none", conditions: [READY, { ...READY, type: "NetworkReady" }], want: undefined },
  {
    name: "a network that is not ready",
    conditions: [READY, NO_NETWORK],
    want: "NetworkPluginNotReady: cni plugin not initialized",
  },
  { name: "a missing condition", conditions: [READY], want: "NetworkReady is missing" },
])("finds the problem of a runtime: $name", ({ conditions, want }) => {
  expect(toProblem(conditions)).toBe(want);
});

test("a container's disk usage is a number, and unset before it was measured", () => {
  const attributes = { id: "c", metadata: { name: "main" }, labels: { app: "one" } };
  const writableLayer = { usedBytes: { value: "4096" } };
  const shown = { id: "c", name: "main", labels: { app: "one" } };
  expect(toContainerWrites({ attributes, writableLayer })).toEqual({
    ...shown,
    writtenBytes: 4096,
  });
  expect(toContainerWrites({ attributes, writableLayer: null })).toEqual({
    ...shown,
    writtenBytes: 0,
  });
});

/** containerd's, shortened: members that are left out are not read. */
const CONTAINERD = {
  pid: 30648,
  processStatus: "running",
  netNamespaceClosed: false,
  image: "localhost/patchbay/pause:dev",
  snapshotter: "overlayfs",
  runtimeType: "io.containerd.runc.v2",
  config: { metadata: { name: "pod", uid: "uid-1", namespace: "ns1" } },
  runtimeSpec: {
    ociVersion: "1.0.2-dev",
    linux: {
      cgroupsPath: "/pods/535546765df3",
      namespaces: [
        { type: "pid" },
        { type: "ipc" },
        { type: "uts" },
        { type: "mount" },
        { type: "network", path: "/var/run/netns/cni-602e50c2-6991-5ef1-9316-993299838d70" },
      ],
    },
  },
};

/** CRI-O's when it has a pause container of its own. */
const CRIO = {
  image: "pause:3.9",
  pid: 4711,
  runtimeSpec: {
    ociVersion: "1.0.2-dev",
    process: { user: { uid: 0, gid: 0 }, args: ["/pause"], cwd: "/" },
    annotations: { "io.kubernetes.cri-o.ContainerType": "sandbox" },
    linux: {
      namespaces: [
        { type: "pid" },
        { type: "network", path: "/var/run/netns/7d4f6a1c-0a0a-4c1d-93d5-6a2b9f0e7f11" },
        { type: "ipc", path: "/var/run/ipcns/7d4f6a1c-0a0a-4c1d-93d5-6a2b9f0e7f11" },
        { type: "uts", path: "/var/run/utsns/7d4f6a1c-0a0a-4c1d-93d5-6a2b9f0e7f11" },
        { type: "mount" },
      ],
    },
  },
};

/** CRI-O's answer with `drop_infra_ctr`: it has the specification, and no process. */
const CRIO_WITHOUT_PAUSE = { runtimeSpec: CRIO.runtimeSpec };

const HOST_NETWORK = {
  ...CONTAINERD,
  runtimeSpec: { linux: { namespaces: [{ type: "pid" }, { type: "ipc" }, { type: "mount" }] } },
};

test.each([
  {
    name: "containerd's",
    info: CONTAINERD,
    want: { pid: 30648, netnsPath: "/var/run/netns/cni-602e50c2-6991-5ef1-9316-993299838d70" },
  },
  {
    name: "containerd's for an ended sandbox",
    info: { ...CONTAINERD, pid: 0, processStatus: "deleted", netNamespaceClosed: true },
    want: { netnsPath: "/var/run/netns/cni-602e50c2-6991-5ef1-9316-993299838d70" },
  },
  { name: "containerd's for the node's network", info: HOST_NETWORK, want: { pid: 30648 } },
  {
    name: "CRI-O's",
    info: CRIO,
    want: { pid: 4711, netnsPath: "/var/run/netns/7d4f6a1c-0a0a-4c1d-93d5-6a2b9f0e7f11" },
  },
  {
    name: "CRI-O's without a pause container",
    info: CRIO_WITHOUT_PAUSE,
    want: { netnsPath: "/var/run/netns/7d4f6a1c-0a0a-4c1d-93d5-6a2b9f0e7f11" },
  },
  {
    name: "a new network namespace without a path",
    info: { pid: 5, runtimeSpec: { linux: { namespaces: [{ type: "network" }] } } },
    want: { pid: 5 },
  },
  {
    name: "a path that is not absolute",
    info: { pid: 5, runtimeSpec: { linux: { namespaces: [{ type: "network", path: "net" }] } } },
    want: { pid: 5 },
  },
  {
    name: "fields of the wrong types",
    info: { pid: "5", runtimeSpec: { linux: { namespaces: {} } } },
    want: {},
  },
  { name: "a list instead of an object", info: [], want: {} },
])("parses a verbose response: $name", ({ info, want }) => {
  expect(parseSandboxInfo({ info: JSON.stringify(info) })).toEqual(want);
});

test.each([{ info: {} }, { info: { info: "" } }, { info: { info: '{"pid":' } }])(
  "finds nothing in %j",
  ({ info }) => {
    expect(parseSandboxInfo(info)).toEqual({});
  },
);
