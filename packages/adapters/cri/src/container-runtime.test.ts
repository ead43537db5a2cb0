// SPDX-License-Identifier: Apache-2.0
// What is sent and what is made of the answers, against a server that is told what to say.
import type { ContainerRuntime } from "@patchbay/core/interfaces";
import { containerConfigFor, sandboxConfigFor } from "@patchbay/cri/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createContainerRuntime } from "./container-runtime.ts";
import { openEndpoint } from "./grpc.ts";
import { grpcError, ScriptedRuntime, wallClock } from "./testing/scripted-runtime.ts";

const CRI = [
  "runtime.v1.RuntimeService",
  "runtime.v1.ImageService",
  "containerd.services.tasks.v1.Tasks",
];
const PLACE = { image: "localhost/one:1", logDirectory: "/logs", cgroupParent: "/pods" };

let server: ScriptedRuntime;
let runtime: ContainerRuntime;
beforeEach(async () => {
  server = new ScriptedRuntime(CRI);
  server.answers["Version"] = () => ({ runtimeName: "scripted", runtimeVersion: "1" });
  await server.start();
  runtime = createContainerRuntime({ endpoints: [server.address], clock: wallClock });
});
afterEach(() => {
  runtime.close();
  server.close();
});

/** What was sent with the last call. */
function sent(): Record<string, unknown> | undefined {
  return server.calls.at(-1)?.request;
}

test("sends the CRI request for a sandbox", async () => {
  server.answers["RunPodSandbox"] = () => ({ podSandboxId: "box" });
  const config = sandboxConfigFor(PLACE, "pod");
  const dns = { servers: ["10.0.0.10"], searches: ["svc"], options: ["ndots:5"] };
  const security = { ...config.security, runAsUser: 0, supplementalGroups: [1, 2] };
  const sysctls = { "net.one": "1" };
  const runtimeHandler = "own-network";
  expect(await runtime.runSandbox({ ...config, dns, security, sysctls, runtimeHandler })).toBe(
    "box",
  );
  expect(sent()).toMatchObject({
    runtimeHandler,
    config: {
      metadata: { name: "pod", namespace: "ns1", uid: "uid-of-pod", attempt: 0 },
      hostname: "pod",
      logDirectory: "/logs/ns1_pod_uid-of-pod",
      dnsConfig: dns,
      labels: config.labels,
      annotations: config.annotations,
      linux: {
        cgroupParent: "/pods",
        sysctls: { "net.one": "1" },
        securityContext: {
          namespaceOptions: { network: "POD", pid: "CONTAINER", ipc: "POD" },
          runAsUser: { value: "0" },
          runAsGroup: null,
          supplementalGroups: ["1", "2"],
          seccomp: { profileType: "RuntimeDefault" },
        },
      },
    },
  });
});

test("sends the CRI request for a container", async () => {
  server.answers["CreateContainer"] = () => ({ containerId: "c" });
  const config = containerConfigFor(PLACE, ["run", "it"], 2);
  const sandbox = sandboxConfigFor(PLACE, "pod");
  const mounts = [
    {
      containerPath: "/a",
      hostPath: "/b",
      readonly: true,
      propagation: "HOST_TO_CONTAINER" as const,
    },
  ];
  const devices = [{ containerPath: "/dev/kvm", hostPath: "/dev/kvm", permissions: "rw" }];
  const resources = { cpuShares: 2, memoryLimitBytes: 5_000_000_000, oomScoreAdj: -5 };
  expect(
    await runtime.createContainer("box", { ...config, mounts, devices, resources }, sandbox),
  ).toBe("c");
  expect(sent()).toMatchObject({
    podSandboxId: "box",
    sandboxConfig: { hostname: "pod" },
    config: {
      metadata: { name: "main", attempt: 2 },
      image: { image: "localhost/one:1" },
      command: ["run", "it"],
      envs: [{ key: "WHO", value: "suite" }],
      mounts: [{ containerPath: "/a", hostPath: "/b", readonly: true }].map((mount) => ({
        ...mount,
        propagation: "PROPAGATION_HOST_TO_CONTAINER",
      })),
      devices,
      logPath: "main/2.log",
      linux: {
        resources: {
          cpuShares: "2",
          cpuQuota: "0",
          memoryLimitInBytes: "5000000000",
          oomScoreAdj: "-5",
        },
        securityContext: {
          capabilities: { addCapabilities: [], dropCapabilities: ["ALL"] },
          runAsUser: { value: "1000" },
          runAsUsername: "1000:1000",
          noNewPrivs: true,
          readonlyRootfs: true,
          maskedPaths: ["/proc/kcore"],
          readonlyPaths: ["/proc/sys"],
          seccomp: { profileType: "RuntimeDefault" },
        },
      },
    },
  });
});

test.each<{ name: string; call: (its: ContainerRuntime) => Promise<unknown>; method: string }>([
  { name: "a sandbox", call: (its) => its.findSandbox("x"), method: "PodSandboxStatus" },
  { name: "a container", call: (its) => its.findContainer("x"), method: "ContainerStatus" },
  { name: "stopping a sandbox", call: (its) => its.stopSandbox("x"), method: "StopPodSandbox" },
  { name: "removing a sandbox", call: (its) => its.removeSandbox("x"), method: "RemovePodSandbox" },
  {
    name: "stopping a container",
    call: (its) => its.stopContainer("x", 1),
    method: "StopContainer",
  },
  {
    name: "removing a container",
    call: (its) => its.removeContainer("x"),
    method: "RemoveContainer",
  },
  { name: "removing an image", call: (its) => its.removeImage("x"), method: "RemoveImage" },
])(
  "a missing object is not a failure for $name; other failures are reported ($method)",
  async ({ call, method }) => {
    server.answers[method] = () => Promise.reject(grpcError("NOT_FOUND"));
    expect(await call(runtime)).toBeUndefined();
    server.answers[method] = () => Promise.reject(grpcError("INTERNAL", "broken"));
    await expect(call(runtime)).rejects.toMatchObject({
      code: "CRI_FAILED",
      details: { call: method, status: "INTERNAL", reason: "broken" },
    });
  },
);

const TASK_RUNS = grpcError(
  "FAILED_PRECONDITION",
  "failed to delete container: cannot delete running task x: failed precondition",
);

/** Lists the last calls, each with the container or sandbox that it names. */
function lastCalls(count: number): readonly string[] {
  return server.calls
    .slice(-count)
    .map(({ method, request: { containerId, podSandboxId } }) =>
      [method, podSandboxId ?? containerId].join(" "),
    );
}

test("a removal that a running task blocks ends the tasks and is repeated", async () => {
  let removals = 0;
  const removeAtSecond = (): Promise<object> => {
    removals += 1;
    return removals % 2 === 1 ? Promise.reject(TASK_RUNS) : Promise.resolve({});
  };
  server.answers["RemovePodSandbox"] = server.answers["RemoveContainer"] = removeAtSecond;
  server.answers["ListContainers"] = () => ({ containers: [{ id: "a" }, { id: "b" }] });
  for (const method of ["Kill", "Wait", "Delete"]) server.answers[method] = () => ({});
  await runtime.removeSandbox("box");
  const ends = ["a", "b", "box"].flatMap((id) => [`Kill ${id}`, `Wait ${id}`, `Delete ${id}`]);
  expect(lastCalls(12)).toEqual([
    "RemovePodSandbox box",
    "ListContainers ",
    ...ends,
    "RemovePodSandbox box",
  ]);
  expect(server.calls.find(({ method }) => method === "Kill")).toMatchObject({
    request: { containerId: "a", execId: "", signal: 9, all: true },
    metadata: { "containerd-namespace": "k8s.io" },
  });
  await runtime.removeContainer("c");
  const again = ["RemoveContainer c", "Kill c", "Wait c", "Delete c", "RemoveContainer c"];
  expect(lastCalls(5)).toEqual(again);
});

test("a task that has ended meanwhile is deleted too", async () => {
  const answers = [() => Promise.reject(TASK_RUNS), () => Promise.resolve({})];
  server.answers["RemoveContainer"] = () => answers.shift()?.() ?? {};
  for (const method of ["Kill", "Wait", "Delete"])
    server.answers[method] = () => Promise.reject(grpcError("NOT_FOUND"));
  await runtime.removeContainer("c");
  expect(lastCalls(3)).toEqual(["Wait c", "Delete c", "RemoveContainer c"]);
});

test("a removal is repeated only once, and only if a running task blocks it", async () => {
  for (const method of ["Kill", "Wait", "Delete"]) server.answers[method] = () => ({});
  server.answers["RemoveContainer"] = () => Promise.reject(TASK_RUNS);
  await expect(runtime.removeContainer("c")).rejects.toMatchObject({
    code: "CRI_FAILED",
    details: { call: "RemoveContainer", status: "FAILED_PRECONDITION" },
  });
  const names = (): readonly string[] => server.calls.map(({ method }) => method);
  expect(names().filter((method) => method === "RemoveContainer")).toHaveLength(2);
  server.answers["Kill"] = () => Promise.reject(grpcError("INTERNAL", "broken"));
  await expect(runtime.removeContainer("c")).rejects.toMatchObject({
    details: { call: "Kill", status: "INTERNAL", reason: "broken" },
  });
  expect(names().at(-1)).toBe("Kill");
  server.answers["RemoveContainer"] = () =>
    Promise.reject(grpcError("FAILED_PRECONDITION", "other"));
  await expect(runtime.removeContainer("c")).rejects.toMatchObject({
    details: { call: "RemoveContainer", reason: "other" },
  });
  expect(names().at(-1)).toBe("RemoveContainer");
});

const WIRE_CONTAINER = { id: "c", state: "CONTAINER_RUNNING", createdAt: 1, labels: { a: "b" } };
const CONTAINER = {
  id: "c",
  name: "",
  attempt: 0,
  image: "",
  state: "RUNNING",
  createdAt: 1n,
  labels: { a: "b" },
  annotations: {},
};
const WIRE_IMAGE = { id: "i", repoTags: ["t"], repoDigests: ["d"], size: 7, uid: { value: 5 } };
const IMAGE = { id: "i", tags: ["t"], digests: ["d"], bytes: 7, username: "", uid: 5 };

test.each<{
  method: string;
  call: (its: ContainerRuntime) => Promise<unknown>;
  answer: object;
  request: object;
  want: unknown;
}>([
  {
    method: "StopPodSandbox",
    call: (its) => its.stopSandbox("x"),
    answer: {},
    request: { podSandboxId: "x" },
    want: undefined,
  },
  {
    method: "RemovePodSandbox",
    call: (its) => its.removeSandbox("x"),
    answer: {},
    request: { podSandboxId: "x" },
    want: undefined,
  },
  {
    method: "ListPodSandbox",
    call: (its) => its.listSandboxes({ sandboxId: "x", labels: { a: "b" } }),
    answer: { items: [] },
    request: { filter: { id: "x", labelSelector: { a: "b" } } },
    want: [],
  },
  {
    method: "PodSandboxStatus",
    call: (its) => its.findSandbox("x"),
    answer: { status: { id: "x", state: "SANDBOX_READY", createdAt: 1 } },
    request: { podSandboxId: "x", verbose: true },
    want: {
      id: "x",
      metadata: { name: "", namespace: "", uid: "", attempt: 0 },
      state: "READY",
      createdAt: 1n,
      labels: {},
      annotations: {},
      ips: [],
    },
  },
  {
    method: "StartContainer",
    call: (its) => its.startContainer("c"),
    answer: {},
    request: { containerId: "c" },
    want: undefined,
  },
  {
    method: "StopContainer",
    call: (its) => its.stopContainer("c", 300),
    answer: {},
    request: { containerId: "c", timeout: "300" },
    want: undefined,
  },
  {
    method: "RemoveContainer",
    call: (its) => its.removeContainer("c"),
    answer: {},
    request: { containerId: "c" },
    want: undefined,
  },
  {
    method: "ListContainers",
    call: (its) => its.listContainers({ sandboxId: "x", labels: { a: "b" } }),
    answer: { containers: [{ ...WIRE_CONTAINER, podSandboxId: "x" }] },
    request: {
      filter: { id: "", podSandboxId: "x", labelSelector: { a: "b" } },
    },
    want: [{ ...CONTAINER, sandboxId: "x" }],
  },
  {
    method: "ContainerStatus",
    call: (its) => its.findContainer("c"),
    answer: { status: { ...WIRE_CONTAINER, exitCode: 3 } },
    request: { containerId: "c" },
    want: {
      ...CONTAINER,
      startedAt: 0n,
      finishedAt: 0n,
      exitCode: 3,
      reason: "",
      message: "",
      imageRef: "",
      logPath: "",
    },
  },
  {
    method: "ContainerStatus",
    call: (its) => its.findContainer("c"),
    answer: {},
    request: { containerId: "c" },
    want: undefined,
  },
  {
    method: "ListContainerStats",
    call: (its) => its.listWrites(),
    answer: {
      stats: [
        {
          attributes: { id: "c", metadata: { name: "main" }, labels: { a: "b" } },
          writableLayer: { usedBytes: { value: 9 } },
        },
        {},
      ],
    },
    request: {},
    want: [
      { id: "c", name: "main", labels: { a: "b" }, writtenBytes: 9 },
      { id: "", name: "", labels: {}, writtenBytes: 0 },
    ],
  },
  {
    method: "Attach",
    call: (its) =>
      its.attach({ containerId: "c", stdin: true, stdout: true, stderr: false, tty: true }),
    answer: { url: "http://127.0.0.1:1/attach/x" },
    request: { containerId: "c", stdin: true, stdout: true, stderr: false, tty: true },
    want: "http://127.0.0.1:1/attach/x",
  },
  {
    method: "ReopenContainerLog",
    call: (its) => its.reopenLog("c"),
    answer: {},
    request: { containerId: "c" },
    want: undefined,
  },
  {
    method: "ImageStatus",
    call: (its) => its.findImage("one"),
    answer: { image: WIRE_IMAGE },
    request: { image: { image: "one", annotations: {} } },
    want: IMAGE,
  },
  {
    method: "ImageStatus",
    call: (its) => its.findImage("one"),
    answer: {},
    request: { image: { image: "one", annotations: {} } },
    want: undefined,
  },
  {
    method: "ListImages",
    call: (its) => its.listImages(),
    answer: { images: [WIRE_IMAGE] },
    request: {},
    want: [IMAGE],
  },
  {
    method: "RemoveImage",
    call: (its) => its.removeImage("one"),
    answer: {},
    request: { image: { image: "one", annotations: {} } },
    want: undefined,
  },
])("$method sends $request and returns $want", async ({ method, call, answer, request, want }) => {
  server.answers[method] = () => answer;
  expect(await call(runtime)).toEqual(want);
  expect(server.calls.map((one) => [one.method, one.request]).at(-1)).toEqual([method, request]);
});

test("aborting its signal ends a pull", async () => {
  const stop = new AbortController();
  server.answers["PullImage"] = () => {
    stop.abort();
    return new Promise(() => undefined);
  };
  const code = "CRI_UNAVAILABLE";
  await expect(runtime.pullImage("one", undefined, stop.signal)).rejects.toMatchObject({ code });
  await expect(runtime.pullImage("one", undefined, stop.signal)).rejects.toMatchObject({ code });
  expect(server.calls.filter(({ method }) => method === "PullImage")).toHaveLength(1);
});

test("a call ends at its deadline", async () => {
  const call = { service: "runtime.v1.RuntimeService", method: "Version", request: {} } as const;
  const past = openEndpoint(server.address, { now: () => 0 });
  await expect(past.call(call, 1000)).rejects.toMatchObject({
    code: "CRI_TIMED_OUT",
    details: { call: "Version", timeoutMs: 1000 },
  });
  past.close();
});

test("a status without conditions reports the first missing condition", async () => {
  server.answers["Status"] = () => ({});
  expect(await runtime.findProblem()).toBe("RuntimeReady is missing");
});

test("calls on a closed runtime fail", async () => {
  await runtime.version();
  runtime.close();
  await expect(runtime.version()).rejects.toThrow();
});

test.each([
  {
    name: "CRI-O's exit code",
    answer: () => ({
      stdout: Buffer.from(""),
      stderr: Buffer.from("command timed out"),
      exitCode: -1,
    }),
  },
  {
    name: "containerd's status",
    answer: () => Promise.reject(grpcError("DEADLINE_EXCEEDED", "timeout 1s exceeded")),
  },
])("reports a program that takes too long from $name", async ({ answer }) => {
  server.answers["ExecSync"] = answer;
  await expect(runtime.execSync("c", ["sleep"], 1)).rejects.toMatchObject({
    code: "CRI_TIMED_OUT",
    details: { call: "ExecSync", timeoutMs: 1000 },
  });
  expect(sent()).toEqual({ containerId: "c", cmd: ["sleep"], timeout: "1" });
});

test("rejects long output of a program, but not other long responses", async () => {
  const execAnswer = (bytes: number) => () => ({ stdout: Buffer.alloc(bytes, "x"), exitCode: 0 });
  server.answers["ExecSync"] = execAnswer(60_000);
  expect((await runtime.execSync("c", ["speak"], 1)).stdout).toHaveLength(60_000);
  server.answers["ExecSync"] = execAnswer(70_000);
  await expect(runtime.execSync("c", ["speak"], 1)).rejects.toMatchObject({
    code: "CRI_FAILED",
    details: { call: "ExecSync", status: "RESOURCE_EXHAUSTED" },
  });
  server.answers["ListContainers"] = () => ({ containers: [{ id: "x".repeat(70_000) }] });
  expect(await runtime.listContainers()).toHaveLength(1);
});

test("an unreachable registry is not an unavailable runtime", async () => {
  server.answers["PullImage"] = () => Promise.reject(grpcError("UNAVAILABLE", "registry"));
  await expect(runtime.pullImage("one")).rejects.toMatchObject({ code: "CRI_FAILED" });
  server.answers["PullImage"] = () => ({ imageRef: "sha256:1" });
  expect(await runtime.pullImage("one")).toBe("sha256:1");
  expect(sent()).toMatchObject({ image: { image: "one" }, auth: null });
});

test("sends the caller's credentials to the registry", async () => {
  server.answers["PullImage"] = () => ({ imageRef: "sha256:1" });
  await runtime.pullImage("one", { username: "me", password: "pw" });
  expect(sent()).toMatchObject({ auth: { username: "me", password: "pw", identityToken: "" } });
});

test("reports a network that is not ready as a problem", async () => {
  const condition = { type: "NetworkReady", status: false, reason: "NoConfig", message: "no file" };
  const ready = { type: "RuntimeReady", status: true, reason: "", message: "" };
  server.answers["Status"] = () => ({ status: { conditions: [ready, condition] } });
  expect(await runtime.findProblem()).toBe("NoConfig: no file");
});

test("requests a stream's address with the requested streams", async () => {
  server.answers["Exec"] = () => ({ url: "http://127.0.0.1:1/exec/x" });
  const streams = { tty: true, stdin: true, stdout: true, stderr: false };
  expect(await runtime.exec({ containerId: "c", command: ["sh"], ...streams })).toMatch(/exec/);
  expect(sent()).toEqual({ containerId: "c", cmd: ["sh"], ...streams });
});

test("reconnects to a restarted runtime at the same address", async () => {
  expect(await runtime.version()).toEqual({ name: "scripted", version: "1" });
  server.stop();
  await expect(runtime.version()).rejects.toMatchObject({ code: "CRI_UNAVAILABLE" });
  await server.start();
  await expect
    .poll(() => runtime.version().catch(() => undefined))
    .toEqual({ name: "scripted", version: "1" });
});
