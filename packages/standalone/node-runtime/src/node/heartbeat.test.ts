// SPDX-License-Identifier: Apache-2.0
import { LEASES, NODES } from "@patchbay/api";
import type { KubeNode, Lease } from "@patchbay/api/kubernetes";
import { type Clock, AppError } from "@patchbay/base";

import { createFakeContainerRuntime } from "@patchbay/cri/testing";
import { createFakeCache, createFakeStore } from "@patchbay/kube/testing";
import { createFakeClock, createFakeFiles, type FakeFiles } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { beforeEach, describe, expect, test } from "vitest";
import {
  sendHeartbeat,
  LeaseAge,
  runHeartbeat,
  type NodeDeps,
  LEASE_RENEW_INTERVAL_MS,
} from "./heartbeat.ts";
import { STATUS_HEARTBEAT_MS } from "./status.ts";

const NAME = { name: "n" };
const IDENTITY = {
  architecture: "x64",
  hostIp: "192.0.2.1",
  bootId: "b",
  machineId: "m",
  systemUuid: "u",
  kernelVersion: "6.1",
  osImage: "Debian",
  runtimeVersion: "fake://1",
};

let nowMs = 0;
let files: FakeFiles;
let store: ReturnType<typeof createFakeStore>;
let deps: NodeDeps;

beforeEach(async () => {
  nowMs = 1_700_000_000_000;
  files = createFakeFiles();
  store = createFakeStore();
  await files.writeAtomic("/proc/meminfo", "MemTotal: 2097152 kB\nMemAvailable: 1048576 kB\n");
  await files.writeAtomic("/proc/cpuinfo", "processor : 0\nprocessor : 1\n");
  await files.writeAtomic("/proc/loadavg", "0.1 0.1 0.1 1/200 4711\n");
  await files.writeAtomic("/proc/sys/kernel/threads-max", "30000\n");
  await files.writeAtomic("/proc/sys/kernel/pid_max", "4194304\n");
  await files.writeAtomic("/dev/net/tun", "");
  await files.writeAtomic("/cni/10-default.conflist", "{}");
  const clock: Clock = {
    now: () => nowMs,
    monotonicMs: () => nowMs,
    sleep: () => Promise.resolve(),
  };
  deps = {
    store,
    files,
    clock,
    log: createSilentLogger(),
    nodeName: "n",
    identity: IDENTITY,
    podsDir: "/pods",
    cniConfDir: "/cni",
    port: 10250,
    runtime: createFakeContainerRuntime(),
    leaseAge: new LeaseAge(clock),
  };
});

async function stored(): Promise<KubeNode> {
  const node = await store.find(NODES, NAME);
  if (node === undefined) throw new Error("no node");
  return node;
}

/** One heartbeat after `ms`; the writes that it made. */
async function beatAfter(ms: number): Promise<readonly string[]> {
  nowMs += ms;
  const node = await store.find(NODES, NAME);
  const from = store.calls.length;
  await sendHeartbeat(deps, node);
  return store.calls.slice(from);
}

function statusOf(node: KubeNode, type: string): string | undefined {
  return node.status?.conditions?.find((one) => one.type === type)?.status;
}

describe("the first heartbeat", () => {
  test("registers the node with labels, resources, addresses and node info", async () => {
    await beatAfter(0);
    const { metadata, status } = await stored();
    expect(metadata.labels).toEqual({
      "kubernetes.io/arch": "amd64",
      "kubernetes.io/hostname": "n",
      "kubevirt.io/schedulable": "true",
      "kubernetes.io/os": "linux",
    });
    expect(status?.capacity).toEqual({
      cpu: "2",
      memory: "2Gi",
      "ephemeral-storage": "1Ti",
      pods: "110",
      "devices.kubevirt.io/tun": "1k",
      "vhost-user.patchbay.io/sockets": "1k",
    });
    expect(status?.allocatable).toEqual({ ...status?.capacity, memory: "1536Mi" });
    expect(status?.nodeInfo).toMatchObject({
      machineID: "m",
      bootID: "b",
      architecture: "amd64",
      operatingSystem: "linux",
      kubeletVersion: expect.stringMatching(/^v1\.\d+\.\d+\+patchbay$/) as unknown,
    });
    expect(status?.addresses).toContainEqual({ type: "InternalIP", address: "192.0.2.1" });
    expect(status?.conditions?.map(({ type, status: value }) => `${type} ${value}`)).toEqual([
      "NetworkUnavailable False",
      "MemoryPressure False",
      "DiskPressure False",
      "PIDPressure False",
      "Ready True",
    ]);
  });

  test("creates the lease, owned by the node", async () => {
    await beatAfter(0);
    const lease = await store.find(LEASES, { namespace: "kube-node-lease", ...NAME });
    expect(lease?.metadata.ownerReferences).toMatchObject([{ kind: "Node", name: "n" }]);
    expect(lease?.spec).toEqual({
      holderIdentity: "n",
      leaseDurationSeconds: 40,
      renewTime: "2023-11-14T22:13:20.000000Z",
    });
  });
});

describe("without changes", () => {
  test("renews only the lease, and the status every five minutes", async () => {
    await beatAfter(0);
    const rest = ["patch leases kube-node-lease/n"];
    expect(await beatAfter(LEASE_RENEW_INTERVAL_MS)).toEqual(rest);
    expect(await beatAfter(STATUS_HEARTBEAT_MS - LEASE_RENEW_INTERVAL_MS - 1)).toEqual(rest);
    expect(await beatAfter(1)).toEqual(["patch nodes /n", ...rest]);
    const ready = (await stored()).status?.conditions?.find(({ type }) => type === "Ready");
    expect(ready?.lastHeartbeatTime).not.toBe(ready?.lastTransitionTime);
    expect(await beatAfter(LEASE_RENEW_INTERVAL_MS)).toEqual(rest);
  });

  test("does not overwrite fields from the server or other writers", async () => {
    await beatAfter(0);
    const node = await stored();
    const imageOfOtherPods = { type: "KernelDeadlock", status: "False" } as const;
    const filled = {
      ...node.status,
      images: null,
    };
    const conditions = [imageOfOtherPods, ...(node.status?.conditions ?? [])];
    store.put(NODES, { ...node, status: { ...filled, conditions } });
    expect(await beatAfter(LEASE_RENEW_INTERVAL_MS)).toEqual(["patch leases kube-node-lease/n"]);
    await beatAfter(STATUS_HEARTBEAT_MS);
    expect((await stored()).status?.conditions).toContainEqual(imageOfOtherPods);
  });
});

describe("writes a change at once", () => {
  test("when memory is short, and does not revert the condition for five minutes", async () => {
    await beatAfter(0);
    await files.writeAtomic("/proc/meminfo", "MemTotal: 2097152 kB\nMemAvailable: 1024 kB\n");
    await beatAfter(LEASE_RENEW_INTERVAL_MS);
    expect(statusOf(await stored(), "MemoryPressure")).toBe("True");
    await files.writeAtomic("/proc/meminfo", "MemTotal: 2097152 kB\nMemAvailable: 1048576 kB\n");
    await beatAfter(LEASE_RENEW_INTERVAL_MS);
    expect(statusOf(await stored(), "MemoryPressure")).toBe("True");
    await beatAfter(STATUS_HEARTBEAT_MS);
    expect(statusOf(await stored(), "MemoryPressure")).toBe("False");
  });

  test("when a control plane marked the node as unknown", async () => {
    await beatAfter(0);
    const node = await stored();
    const conditions = (node.status?.conditions ?? []).map((one) => ({
      ...one,
      status: "Unknown" as const,
    }));
    store.put(NODES, { ...node, status: { ...node.status, conditions } });
    await beatAfter(LEASE_RENEW_INTERVAL_MS);
    expect(statusOf(await stored(), "Ready")).toBe("True");
  });

  test("when the default network's configuration is deleted", async () => {
    await beatAfter(0);
    await files.remove("/cni/10-default.conflist");
    await beatAfter(LEASE_RENEW_INTERVAL_MS);
    expect(statusOf(await stored(), "NetworkUnavailable")).toBe("True");
  });

  test("when a node of an older version lacks a label, and retains other labels", async () => {
    store.put(NODES, {
      apiVersion: "v1",
      kind: "Node",
      metadata: { ...NAME, labels: { rack: "7" } },
    });
    await beatAfter(0);
    expect((await stored()).metadata.labels).toMatchObject({
      rack: "7",
      "kubernetes.io/arch": "amd64",
    });
  });

  test("when the node was deleted", async () => {
    await beatAfter(0);
    await store.delete(NODES, NAME);
    await beatAfter(LEASE_RENEW_INTERVAL_MS);
    expect(statusOf(await stored(), "Ready")).toBe("True");
  });
});

test("the age of the Lease is the time since the last renewal that succeeded", async () => {
  expect(deps.leaseAge.print()).toBe("the Lease has not been renewed yet");
  await beatAfter(0);
  nowMs += 3900;
  expect(deps.leaseAge.print()).toBe("the Lease was renewed 3 s ago");
  const patch = (): Promise<never> =>
    Promise.reject(new AppError("KUBE_FORBIDDEN", { message: "no" }));
  const failing = { ...deps, store: { ...wrapped(), patch } };
  await sendHeartbeat(failing, await stored()).catch(() => undefined);
  expect(deps.leaseAge.print()).toBe("the Lease was renewed 3 s ago");
  await beatAfter(1000);
  expect(deps.leaseAge.print()).toBe("the Lease was renewed 0 s ago");
});

test("renews the Lease while the machine's state cannot be read", async () => {
  await beatAfter(0);
  const nodes = createFakeCache<KubeNode>();
  nodes.put(await stored());
  const stop = new AbortController();
  const clock = createFakeClock();
  files.readText = () => new Promise<never>(() => undefined);
  const from = store.calls.length;
  void runHeartbeat({ ...deps, clock }, nodes, stop.signal);
  for (let beat = 0; beat < 3; beat += 1) {
    await clock.advance(LEASE_RENEW_INTERVAL_MS);
    await clock.advance(0);
  }
  expect(store.calls.slice(from)).toEqual([1, 2, 3].map(() => "patch leases kube-node-lease/n"));
  stop.abort();
});

test("recreates a deleted lease", async () => {
  await beatAfter(0);
  await store.delete(LEASES, { namespace: "kube-node-lease", ...NAME });
  await beatAfter(LEASE_RENEW_INTERVAL_MS);
  const lease: Lease | undefined = await store.find(LEASES, {
    namespace: "kube-node-lease",
    ...NAME,
  });
  expect(lease?.spec?.holderIdentity).toBe("n");
});

describe("the node is registered", () => {
  test("with a heartbeat every ten seconds after the registration", async () => {
    const nodes = createFakeCache<KubeNode>();
    const stop = new AbortController();
    const clock = createFakeClock();
    const kept = runHeartbeat({ ...deps, clock }, nodes, stop.signal);
    await clock.advance(LEASE_RENEW_INTERVAL_MS - 1);
    expect(store.calls).toEqual([]);
    await clock.advance(1);
    await clock.advance(0);
    expect(store.calls).toContain("create nodes /n");
    nodes.put(await stored());
    const from = store.calls.length;
    await clock.advance(LEASE_RENEW_INTERVAL_MS);
    await clock.advance(0);
    expect(store.calls.slice(from)).toEqual(["patch leases kube-node-lease/n"]);
    stop.abort();
    await kept;
  });

  test("by another process meanwhile", async () => {
    store.put(NODES, { apiVersion: "v1", kind: "Node", metadata: { ...NAME } });
    await sendHeartbeat(deps, undefined);
    expect(store.calls).toEqual(["create nodes /n"]);
  });

  test.each(["create", "patch"] as const)(
    "at the next attempt when %s is rejected",
    async (verb) => {
      if (verb === "patch") await beatAfter(0);
      const refused = new AppError("KUBE_FORBIDDEN", { message: "no" });
      const failing = { ...deps, store: { ...wrapped(), [verb]: () => Promise.reject(refused) } };
      const before = await store.find(NODES, NAME);
      await expect(sendHeartbeat(failing, before)).rejects.toBe(refused);
    },
  );
});

/** The store as a plain object, of which a test replaces members. */
function wrapped(): NodeDeps["store"] {
  return {
    find: (...call) => store.find(...call),
    list: (...call) => store.list(...call),
    create: (...call) => store.create(...call),
    update: (...call) => store.update(...call),
    patch: (...call) => store.patch(...call),
    delete: (...call) => store.delete(...call),
  };
}
