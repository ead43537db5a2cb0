// SPDX-License-Identifier: Apache-2.0
import type { Sandbox, SandboxStatus } from "@patchbay/core/interfaces";
import { describeSandboxesContract, createFakeContainerRuntime } from "@patchbay/cri/testing";
import { createFakeNamespaces, createFakeClock, settle } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import {
  createCriSandboxes,
  type SandboxDeps,
  findProblem,
  openSandboxConnection,
  waitForRuntime,
} from "./sandboxes.ts";
import { AppError } from "@patchbay/base";
import { createFakeLogger } from "@patchbay/telemetry/testing";

const BARE: SandboxStatus = {
  id: "box-1",
  metadata: { namespace: "ns1", name: "pod", uid: "uid-1", attempt: 0 },
  state: "READY",
  createdAt: 1n,
  labels: { "io.kubernetes.pod.uid": "uid-1" },
  annotations: {},
  ips: ["10.0.0.1"],
};
const IN_NODE_NETWORK: SandboxStatus = { ...BARE, pid: 77 };
const WITHOUT_PROCESS = { ...BARE, netnsPath: "/run/netns/box-1" };
const STATUS = { ...IN_NODE_NETWORK, netnsPath: "/run/netns/box-1" };
const ONE: Sandbox = {
  id: "box-1",
  podUid: "uid-1",
  netnsPath: "/run/netns/box-1",
  netnsInode: "1",
  pod: { namespace: "ns1", name: "pod" },
};

/** A runtime that has these sandboxes, and lists them by their labels. */
function createRuntime(statuses: () => readonly SandboxStatus[]): SandboxDeps["runtime"] {
  return {
    listSandboxes: ({ labels = {} } = {}) =>
      Promise.resolve(
        statuses().filter((status) =>
          Object.entries(labels).every(([key, value]) => status.labels[key] === value),
        ),
      ),
    findSandbox: (id) => Promise.resolve(statuses().find((status) => status.id === id)),
  };
}

describeSandboxesContract("CRI", () => {
  const statuses = new Map<string, SandboxStatus>();
  const namespaces = createFakeNamespaces();
  const toStatus = ({ id, podUid: uid, netnsPath, pod }: Sandbox): SandboxStatus => ({
    ...STATUS,
    id,
    netnsPath,
    metadata: { ...pod, uid, attempt: statuses.size },
    labels: { "io.kubernetes.pod.uid": uid },
  });
  return {
    sandboxes: createCriSandboxes({
      runtime: createRuntime(() => [...statuses.values()]),
      namespaces,
    }),
    put: (sandbox) => {
      for (const [id, status] of statuses) {
        if (status.metadata.uid === sandbox.podUid)
          statuses.set(id, { ...status, state: "NOTREADY" });
      }
      statuses.set(sandbox.id, toStatus(sandbox));
      namespaces.put(sandbox.netnsPath, sandbox.netnsInode);
    },
    take: (podUid) => {
      for (const [id, status] of statuses) if (status.metadata.uid === podUid) statuses.delete(id);
    },
  };
});

test.each<{ name: string; statuses: readonly SandboxStatus[]; want: Partial<Sandbox> | undefined }>(
  [
    {
      name: "the ready sandbox",
      statuses: [STATUS],
      want: ONE,
    },
    {
      name: "the sandbox of a pod with a service mesh's proxy",
      statuses: [{ ...STATUS, labels: { ...STATUS.labels, "sidecar.istio.io/inject": "true" } }],
      want: { ...ONE, isMeshed: true },
    },
    {
      name: "not a sandbox that is not ready",
      statuses: [{ ...STATUS, state: "NOTREADY" }],
      want: undefined,
    },
    {
      name: "not a sandbox that matches the pod only by label",
      statuses: [{ ...STATUS, metadata: { ...STATUS.metadata, uid: "uid-2" } }],
      want: undefined,
    },
    {
      name: "the last attempt of two ready sandboxes",
      statuses: [
        { ...STATUS, id: "box-2", metadata: { ...STATUS.metadata, attempt: 1 } },
        { ...STATUS },
      ],
      want: { id: "box-2" },
    },
    {
      name: "the process's namespace if the path is not visible here",
      statuses: [{ ...STATUS, netnsPath: "/elsewhere" }],
      want: { netnsPath: "/proc/77/ns/net", netnsInode: "2" },
    },
    {
      name: "the last attempt in any list order",
      statuses: [1, 2, 0].map((attempt) => ({
        ...STATUS,
        id: `box-${String(attempt)}`,
        metadata: { ...STATUS.metadata, attempt },
      })),
      want: { id: "box-2" },
    },
    {
      name: "a sandbox whose process the runtime does not report",
      statuses: [WITHOUT_PROCESS],
      want: ONE,
    },
    {
      name: "unset if its path is not visible and it has no process",
      statuses: [{ ...WITHOUT_PROCESS, netnsPath: "/elsewhere" }],
      want: undefined,
    },
    {
      name: "unset if neither its path nor its process is visible",
      statuses: [{ ...STATUS, netnsPath: "/elsewhere", pid: 78 }],
      want: undefined,
    },
    { name: "unset in the node's network namespace", statuses: [IN_NODE_NETWORK], want: undefined },
  ],
)("a pod's sandbox: $name", async ({ statuses, want }) => {
  const namespaces = createFakeNamespaces();
  namespaces.put("/run/netns/box-1", "1");
  namespaces.put("/proc/77/ns/net", "2");
  const sandboxes = createCriSandboxes({ runtime: createRuntime(() => statuses), namespaces });
  const found = await sandboxes.find("uid-1");
  expect(found).toEqual(want === undefined ? undefined : { ...ONE, ...want });
  expect(namespaces.openCount).toBe(0);
});

test("returns no sandbox that ends between the two requests", async () => {
  const runtime = {
    ...createRuntime(() => [STATUS]),
    findSandbox: () => Promise.resolve(undefined),
  };
  const sandboxes = createCriSandboxes({ runtime, namespaces: createFakeNamespaces() });
  expect(await sandboxes.find("uid-1")).toBeUndefined();
});

test("lists sandboxes again only when the known one is no longer ready", async () => {
  const statuses = [STATUS];
  let lists = 0;
  const { listSandboxes, findSandbox } = createRuntime(() => statuses);
  const namespaces = createFakeNamespaces();
  namespaces.put("/run/netns/box-1", "1");
  const sandboxes = createCriSandboxes({
    runtime: {
      listSandboxes: (filter) => {
        lists += 1;
        return listSandboxes(filter);
      },
      findSandbox,
    },
    namespaces,
  });
  const find = async (): Promise<readonly unknown[]> => [
    (await sandboxes.find("uid-1"))?.id,
    lists,
  ];
  expect(await find()).toEqual(["box-1", 1]);
  expect(await find()).toEqual(["box-1", 1]);
  statuses.splice(0, 1, { ...STATUS, state: "NOTREADY" });
  expect(await find()).toEqual([undefined, 2]);
  statuses.push({ ...STATUS, id: "box-2" });
  expect(await find()).toEqual(["box-2", 3]);
});

test("lists only sandboxes with the pod's label", async () => {
  const filters: unknown[] = [];
  const runtime: SandboxDeps["runtime"] = {
    listSandboxes: (filter) => {
      filters.push(filter);
      return Promise.resolve([]);
    },
    findSandbox: () => Promise.reject(new Error("there is none to find")),
  };
  await createCriSandboxes({ runtime, namespaces: createFakeNamespaces() }).find("uid-1");
  expect(filters).toEqual([{ labels: { "io.kubernetes.pod.uid": "uid-1" } }]);
});

test("lists again only the least recently requested of 1001 pods", async () => {
  const podUids = Array.from({ length: 1001 }, (_none, index) => `uid-${String(index)}`);
  const statuses = podUids.map((uid) => ({
    ...STATUS,
    id: uid,
    metadata: { ...STATUS.metadata, uid },
  }));
  const namespaces = createFakeNamespaces();
  namespaces.put(STATUS.netnsPath, "1");
  const listed: unknown[] = [];
  const byId = new Map(statuses.map((status) => [status.id, status]));
  const sandboxes = createCriSandboxes({
    runtime: {
      listSandboxes: ({ labels = {} } = {}) => {
        const [uid = ""] = Object.values(labels);
        listed.push(uid);
        return Promise.resolve([byId.get(uid) ?? STATUS]);
      },
      findSandbox: (id) => Promise.resolve(byId.get(id)),
    },
    namespaces,
  });
  for (const uid of podUids.slice(0, 1000)) await sandboxes.find(uid);
  await sandboxes.find("uid-0");
  listed.length = 0;
  await sandboxes.find("uid-1000");
  for (const uid of ["uid-0", "uid-2", "uid-1000", "uid-1"]) await sandboxes.find(uid);
  expect(listed).toEqual(["uid-1000", "uid-1"]);
});

test("waits for a runtime that starts later, and logs the reason once", async () => {
  const clock = createFakeClock();
  const log = createFakeLogger();
  const runtime = createFakeContainerRuntime(clock);
  runtime.stop();
  let isOver = false;
  const waiting = waitForRuntime({ runtime, clock, log }, new AbortController().signal);
  void waiting.then(() => {
    isOver = true;
  });
  for (const ms of [100, 200, 400, 800, 1600, 2000, 2000]) {
    await settle();
    expect(clock.dueMs.map((due) => due - clock.now())).toEqual([ms]);
    await clock.advance(ms);
  }
  expect(isOver).toBe(false);
  runtime.failNext("version", new AppError("CRI_TIMED_OUT", { call: "Version", timeoutMs: 1 }));
  runtime.start();
  await clock.advance(2000);
  await clock.advance(2000);
  await waiting;
  expect(log.lines).toMatchObject([
    { level: "warn", message: "waiting for the container runtime" },
    { level: "warn", fields: { reason: expect.stringContaining("did not finish") as string } },
    { level: "info", message: "found the container runtime", fields: { name: "fake" } },
  ]);
});

test("an abort ends the wait, and an unused client opens no connection", async () => {
  const stop = new AbortController();
  const clock = createFakeClock();
  const opened = openSandboxConnection(
    {
      hostProcess: undefined,
      endpoints: ["unix:///nobody/is/here.sock"],
      namespaces: createFakeNamespaces(),
      clock,
      log: createFakeLogger(),
    },
    stop.signal,
  );
  stop.abort(new Error("stopped"));
  await opened.runtimeReady;
  await expect(opened.sandboxes.find("uid-1")).rejects.toMatchObject({ code: "CRI_UNAVAILABLE" });
  opened.close();
});

test("probes the runtime at each call, for at most three seconds", async () => {
  const clock = createFakeClock();
  const runtime = createFakeContainerRuntime(clock);
  expect(await findProblem({ runtime, clock })).toBeUndefined();
  runtime.stop();
  expect(await findProblem({ runtime, clock })).toContain("no container runtime answers");
  const hangs = { version: () => new Promise<never>(() => undefined) };
  const answer = findProblem({ runtime: hangs, clock });
  await settle();
  await clock.advance(3000);
  expect(await answer).toContain("did not finish Version within 3000 ms");
  runtime.start();
  expect(await findProblem({ runtime, clock })).toBeUndefined();
  expect(clock.dueMs).toEqual([]);
});
