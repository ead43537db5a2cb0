// SPDX-License-Identifier: Apache-2.0
// Shapes of verbose answers as containerd 1.6.20 gave them, and as CRI-O's are recorded in public reports.
import { expect, test } from "vitest";
import { parseSandboxInfo } from "./sandbox-info.ts";

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

/** CRI-O's as it comes (`drop_infra_ctr`): there is no process, the specification alone is told. */
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
    name: "containerd's of a sandbox that has ended",
    info: { ...CONTAINERD, pid: 0, processStatus: "deleted", netNamespaceClosed: true },
    want: { netnsPath: "/var/run/netns/cni-602e50c2-6991-5ef1-9316-993299838d70" },
  },
  { name: "containerd's in the node's network", info: HOST_NETWORK, want: { pid: 30648 } },
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
    name: "a namespace that the runtime has made with the process: no path",
    info: { pid: 5, runtimeSpec: { linux: { namespaces: [{ type: "network" }] } } },
    want: { pid: 5 },
  },
  {
    name: "a path that is not absolute",
    info: { pid: 5, runtimeSpec: { linux: { namespaces: [{ type: "network", path: "net" }] } } },
    want: { pid: 5 },
  },
  { name: "other types", info: { pid: "5", runtimeSpec: { linux: { namespaces: {} } } }, want: {} },
  { name: "a list", info: [], want: {} },
])("what a verbose answer tells: $name", ({ info, want }) => {
  expect(parseSandboxInfo({ info: JSON.stringify(info) })).toEqual(want);
});

test.each([{ info: {} }, { info: { info: "" } }, { info: { info: '{"pid":' } }])(
  "nothing is told by %j",
  ({ info }) => {
    expect(parseSandboxInfo(info)).toEqual({});
  },
);
