// SPDX-License-Identifier: Apache-2.0
// The whole loop over one pod, on a runtime in memory.
import { SECRETS } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import { expect, test } from "vitest";
import { aContainer, aPod, IMAGE } from "../testing/pods.ts";
import { PodWorld } from "../testing/world.ts";

const ALWAYS = { restartPolicy: "Always" } as const;

async function aWorld(pod = aPod()): Promise<PodWorld> {
  const world = new PodWorld();
  await world.put(pod);
  await world.run();
  return world;
}

test("a new pod runs and reports it in its status", async () => {
  const world = await aWorld();
  expect(await world.remains()).toEqual(["sandbox 0 READY", "compute 0 RUNNING"]);
  const { status } = (await world.pod()) ?? {};
  expect(status).toMatchObject({ phase: "Running", podIP: "10.244.0.2", qosClass: "BestEffort" });
  expect(status?.conditions?.map(({ type, status: is }) => `${type} ${is}`)).toEqual([
    "Initialized True",
    "Ready True",
    "ContainersReady True",
    "PodScheduled True",
  ]);
  const [compute] = status?.containerStatuses ?? [];
  expect(compute).toMatchObject({ ready: true, started: true, restartCount: 0, imageID: IMAGE.id });
  expect(compute?.containerID).toMatch(/^fake:\/\/container-/);
});

test("a steady state causes no writes and no changes", async () => {
  const world = await aWorld();
  const before = [world.runtime.calls.length, world.writes.length];
  await world.run();
  expect([world.runtime.calls.length, world.writes.length]).toEqual(before);
});

test.each(["runSandbox", "startContainer"] as const)(
  "a start whose %s fails is followed by a check for leftovers",
  async (call) => {
    const world = new PodWorld();
    const error = new AppError("CRI_FAILED", { call, status: "UNKNOWN", reason: "ttrpc: closed" });
    world.runtime.failNext(call, error);
    await world.put(aPod());
    await world.run();
    expect(world.interruptions).toBe(1);
    await world.clock.advance(60_000);
    await world.run();
    expect(await world.remains()).toContain("compute 0 RUNNING");
    expect(world.interruptions).toBe(1);
  },
);

test("a pod waits while the disk is nearly full, and starts by itself when space is free", async () => {
  const world = new PodWorld();
  const readSpace = world.files.readSpace.bind(world.files);
  world.files.readSpace = () => Promise.resolve({ sizeBytes: 2 ** 30, freeBytes: 2 ** 25 });
  await world.put(aPod());
  await world.run();
  expect(await world.remains()).toEqual([]);
  const [waiting] = (await world.pod())?.status?.containerStatuses ?? [];
  expect(waiting?.state.waiting?.message).toMatch(/^the disk of .* is nearly full: 32Mi of 1Gi/);
  world.files.readSpace = readSpace;
  await world.clock.advance(60_000);
  await world.run();
  expect(await world.remains()).toContain("compute 0 RUNNING");
});

test("init containers run one after the other, before the other containers", async () => {
  const initContainers = [aContainer({ name: "one" }), aContainer({ name: "two" })];
  const world = await aWorld(aPod({ initContainers }));
  expect(await world.remains()).toEqual(["sandbox 0 READY", "one 0 RUNNING"]);
  expect((await world.pod())?.status?.containerStatuses?.[0]?.state).toEqual({
    waiting: { reason: "PodInitializing" },
  });
  world.runtime.endContainer(await world.running("one"), { exitCode: 0 });
  await world.run();
  world.runtime.endContainer(await world.running("two"), { exitCode: 0 });
  await world.run();
  expect((await world.pod())?.status).toMatchObject({ phase: "Running" });
  expect(await world.remains()).toContain("compute 0 RUNNING");
});

test("a failing init container fails a pod that is never restarted", async () => {
  const world = await aWorld(aPod({ initContainers: [aContainer({ name: "one" })] }));
  world.runtime.endContainer(await world.running("one"), { exitCode: 3 });
  await world.run();
  expect((await world.pod())?.status?.phase).toBe("Failed");
  expect(await world.remains()).toEqual(["sandbox 0 NOTREADY", "one 0 EXITED"]);
});

test.each([
  { exitCode: 0, phase: "Succeeded", reason: "Completed" },
  { exitCode: 7, phase: "Failed", reason: "Error" },
])(
  "a container that ends with $exitCode makes the pod $phase",
  async ({ exitCode, phase, reason }) => {
    const world = await aWorld();
    world.runtime.endContainer(await world.running(), { exitCode });
    await world.run();
    const { status } = (await world.pod()) ?? {};
    expect(status?.phase).toBe(phase);
    expect(status?.containerStatuses?.[0]?.state.terminated).toMatchObject({ exitCode, reason });
    expect(await world.remains()).toEqual(["sandbox 0 NOTREADY", "compute 0 EXITED"]);
  },
);

test("reports a container killed for lack of memory", async () => {
  const world = await aWorld();
  world.runtime.endContainer(await world.running(), { exitCode: 137, reason: "OOMKilled" });
  await world.run();
  const state = (await world.pod())?.status?.containerStatuses?.[0]?.state;
  expect(state?.terminated).toMatchObject({ exitCode: 137, reason: "OOMKilled" });
});

test("restarts a container that keeps ending with increasing delays", async () => {
  const world = await aWorld(aPod(ALWAYS));
  const waited: number[] = [];
  for (let round = 0; round < 8; round += 1) {
    world.runtime.endContainer(await world.running(), { exitCode: 1 });
    let seconds = 0;
    await world.run();
    while (!(await world.remains()).some((one) => one.includes("RUNNING"))) {
      seconds += 5;
      await world.clock.advance(5000);
      await world.run();
    }
    waited.push(seconds);
  }
  expect(waited).toEqual([0, 10, 20, 40, 80, 160, 300, 300]);
  const [status] = (await world.pod())?.status?.containerStatuses ?? [];
  expect(status).toMatchObject({ restartCount: 8, ready: true });
  expect(status?.lastState?.terminated?.exitCode).toBe(1);
  // The one that runs, and the last that ended.
  expect((await world.remains()).filter((one) => one.startsWith("compute"))).toHaveLength(2);
});

test("reports why a container waits for its restart", async () => {
  const world = await aWorld(aPod(ALWAYS));
  world.runtime.endContainer(await world.running(), { exitCode: 1 });
  await world.run();
  world.runtime.endContainer(await world.running(), { exitCode: 1 });
  await world.run();
  const [status] = (await world.pod())?.status?.containerStatuses ?? [];
  expect(status?.state.waiting?.reason).toBe("CrashLoopBackOff");
  expect(status?.lastState?.terminated?.exitCode).toBe(1);
});

test("a deleted pod is stopped, and nothing remains", async () => {
  const world = await aWorld();
  await world.requestDeletion(30);
  await world.run();
  await world.run();
  expect(world.runtime.calls).toContain("stopContainer container-2 30");
  expect(await world.remains()).toEqual([]);
  expect(await world.pod()).toBeUndefined();
  expect(world.files.paths).toEqual([]);
});

test("reports the end of a deleted pod before the object is deleted", async () => {
  const world = await aWorld();
  await world.requestDeletion(30);
  await world.run();
  await world.run();
  expect(world.writes.slice(-2)).toEqual(["patch pods ns/a", "delete pods ns/a"]);
});

test("kills a container that does not stop within the grace period", async () => {
  const world = await aWorld();
  world.runtime.ignoresStop = () => true;
  await world.requestDeletion(30);
  await world.run();
  expect(await world.remains()).toContain("compute 0 RUNNING");
  await world.clock.advance(30_000);
  await world.run();
  expect(await world.remains()).toEqual([]);
});

test("forwards a shorter grace period", async () => {
  const world = await aWorld();
  world.runtime.ignoresStop = () => true;
  await world.requestDeletion(30);
  await world.run();
  await world.requestDeletion(5);
  await world.run();
  expect(world.runtime.calls).toContain("stopContainer container-2 5");
});

test("removes the leftovers of a deleted pod", async () => {
  const world = await aWorld();
  await world.store.delete(
    { group: "", version: "v1", kind: "Pod", resource: "pods", namespaced: true },
    { namespace: "ns", name: "a" },
  );
  await world.run();
  await world.run();
  expect(await world.remains()).toEqual([]);
  expect(world.files.paths).toEqual([]);
});

test("a pod that is never restarted fails when its sandbox dies", async () => {
  const world = await aWorld();
  world.runtime.reboot();
  await world.run();
  const { status } = (await world.pod()) ?? {};
  expect(status?.phase).toBe("Failed");
  expect(status?.containerStatuses?.[0]?.state.terminated?.exitCode).toBe(255);
  expect(await world.remains()).toEqual(["sandbox 0 NOTREADY", "compute 0 EXITED"]);
});

test("a restartable pod gets a new sandbox and a higher restart count", async () => {
  const world = await aWorld(aPod(ALWAYS));
  world.runtime.reboot();
  await world.run();
  expect(await world.remains()).toEqual(["sandbox 1 READY", "compute 1 RUNNING"]);
  const [status] = (await world.pod())?.status?.containerStatuses ?? [];
  expect(status?.restartCount).toBe(1);
});

test("init containers run again from the first when the sandbox dies between them", async () => {
  const initContainers = [aContainer({ name: "one" }), aContainer({ name: "two" })];
  const world = await aWorld(aPod({ ...ALWAYS, initContainers }));
  world.runtime.endContainer(await world.running("one"), { exitCode: 0 });
  await world.run();
  expect(await world.remains()).toContain("two 0 RUNNING");
  world.runtime.reboot();
  await world.run();
  expect(await world.remains()).toEqual(["sandbox 1 READY", "one 1 RUNNING"]);
});

test("a forbidden pod fails with a reason, and nothing is created", async () => {
  const world = await aWorld(aPod({ hostNetwork: true, hostPID: true }));
  const { status } = (await world.pod()) ?? {};
  expect(status).toMatchObject({ phase: "Failed", reason: "PodForbidden" });
  expect(status?.message).toContain("spec.hostNetwork: is for Patchbay's own pods only");
  expect(world.notes.map(({ reason }) => reason)).toEqual(["PodForbidden"]);
  expect(world.runtime.calls).toEqual([]);
});

test("reports a container that would run as root, and the pod waits", async () => {
  const image = { ...IMAGE, id: "sha256:2", tags: ["localhost/root:dev"], uid: 0 };
  const world = new PodWorld();
  world.runtime.putImage(image);
  await world.put(
    aPod({ securityContext: {}, containers: [aContainer({ image: "localhost/root:dev" })] }),
  );
  await world.run();
  const waiting = (await world.pod())?.status?.containerStatuses?.[0]?.state.waiting;
  expect(waiting?.reason).toBe("CreateContainerConfigError");
  expect(waiting?.message).toContain("securityContext.runAsUser");
});

test("pulls an image, then starts the pod", async () => {
  const world = new PodWorld();
  world.runtime.putRemoteImage({ ...IMAGE, id: "sha256:3", tags: ["reg/x:1"] });
  await world.put(aPod({ containers: [aContainer({ image: "reg/x:1" })] }));
  await world.run();
  expect(await world.remains()).toEqual(["sandbox 0 READY", "compute 0 RUNNING"]);
  expect(world.notes.map(({ reason }) => reason)).toEqual(["Pulling", "Pulled"]);
});

test.each([
  { name: "with one of the pod's secrets", secrets: ["none", "wrong", "right"], state: "RUNNING" },
  { name: "with no other secret", secrets: ["wrong"], state: "absent" },
])("pulls a private image $name", async ({ secrets, state }) => {
  const world = new PodWorld();
  for (const [name, password] of [["wrong", "guess"] as const, ["right", "pw"] as const]) {
    const config = JSON.stringify({ auths: { "reg.example": { username: "me", password } } });
    const data = { ".dockerconfigjson": Buffer.from(config).toString("base64") };
    const metadata = { name, namespace: "ns" };
    world.store.put(SECRETS, { apiVersion: "v1", kind: "Secret", metadata, data });
  }
  world.runtime.putRemoteImage({ ...IMAGE, id: "sha256:3", tags: ["reg.example/x:1"] }, "pw");
  const imagePullSecrets = secrets.map((name) => ({ name }));
  const containers = [aContainer({ image: "reg.example/x:1" })];
  await world.put(aPod({ containers, imagePullSecrets }));
  await world.run();
  const waiting = (await world.pod())?.status?.containerStatuses?.[0]?.state.waiting;
  expect(waiting?.message ?? "").toContain(state === "RUNNING" ? "" : "401 Unauthorized");
  expect((await world.remains()).includes("compute 0 RUNNING")).toBe(state === "RUNNING");
});

test("reports a failed pull, and retries with increasing delays", async () => {
  const world = await aWorld(aPod({ containers: [aContainer({ image: "reg/none:1" })] }));
  const waiting = (await world.pod())?.status?.containerStatuses?.[0]?.state.waiting;
  expect(waiting?.reason).toBe("ImagePullBackOff");
  expect(waiting?.message).toMatch(
    /to use a local file, add it with: patchbay image add \S+ SOURCE$/,
  );
  const pulls = (): number => world.runtime.calls.filter((call) => call.startsWith("pull")).length;
  expect(pulls()).toBe(1);
  await world.clock.advance(5000);
  await world.run();
  expect(pulls()).toBe(1);
  await world.clock.advance(10_000);
  await world.run();
  expect(pulls()).toBe(2);
});

test("waits for an image that is never pulled", async () => {
  const world = await aWorld(
    aPod({ containers: [aContainer({ image: "guest", imagePullPolicy: "Never" })] }),
  );
  expect((await world.pod())?.status?.containerStatuses?.[0]?.state.waiting).toEqual({
    reason: "ErrImageNeverPull",
    message: "image guest is not on this machine; add it with: patchbay image add guest SOURCE",
  });
  world.runtime.putImage({ ...IMAGE, id: "sha256:4", tags: ["guest"] });
  await world.run();
  expect(await world.remains()).toContain("compute 0 RUNNING");
});

test("waits for a mounted image, and reports it", async () => {
  const volumes = [{ name: "k", image: { reference: "guest", pullPolicy: "Never" as const } }];
  const world = await aWorld(aPod({ volumes }));
  const waiting = (await world.pod())?.status?.containerStatuses?.[0]?.state.waiting;
  expect(waiting?.reason).toBe("ErrImageNeverPull");
  expect(await world.remains()).toEqual([]);
  world.runtime.putImage({ ...IMAGE, id: "sha256:4", tags: ["guest"] });
  await world.run();
  expect(await world.remains()).toContain("compute 0 RUNNING");
});

test("reports a missing volume object, and continues when it exists", async () => {
  const world = new PodWorld();
  world.findVolumeProblem = "ConfigMap x is not there";
  await world.put(aPod());
  await world.run();
  const waiting = (await world.pod())?.status?.containerStatuses?.[0]?.state.waiting;
  expect(waiting?.message).toContain("ConfigMap x is not there");
  expect(world.notes.map(({ reason }) => reason)).toEqual(["FailedMount"]);
  world.findVolumeProblem = undefined;
  await world.clock.advance(60_000);
  await world.run();
  expect(await world.remains()).toContain("compute 0 RUNNING");
});

test("reports nothing while the runtime is unavailable, then continues", async () => {
  const world = await aWorld();
  const before = (await world.pod())?.status;
  world.runtime.stop();
  await world.run();
  expect((await world.pod())?.status).toEqual(before);
  world.runtime.start();
  await world.run();
  expect((await world.pod())?.status).toEqual(before);
});

test("kills and restarts an unhealthy container", async () => {
  const world = await aWorld(aPod(ALWAYS));
  const id = await world.running();
  world.health.set(id, { isStarted: true, isReady: false, isUnhealthy: true });
  await world.run();
  expect(await world.running()).not.toBe(id);
});

test("a container that is not ready makes the pod not ready", async () => {
  const world = await aWorld();
  world.health.set(await world.running(), { isStarted: true, isReady: false, isUnhealthy: false });
  await world.run();
  const ready = (await world.pod())?.status?.conditions?.find(({ type }) => type === "Ready");
  expect(ready).toMatchObject({ status: "False", reason: "ContainersNotReady" });
});

const EFFECTS = Array.from({ length: 16 }, (_, index) => index + 1);

test.each(
  EFFECTS.flatMap((at) => [
    { at, when: "before" as const },
    { at, when: "after" as const },
  ]),
)("a crash $when effect $at causes no duplicates and no leftovers", async ({ at, when }) => {
  const world = new PodWorld();
  world.crashInjector.crashAt(at, when);
  await world.put(aPod({ initContainers: [aContainer({ name: "one" })] }));
  await world.run();
  const init = (await world.remains()).some((one) => one === "one 0 RUNNING");
  expect(init).toBe(true);
  world.runtime.endContainer(await world.running("one"), { exitCode: 0 });
  await world.run();
  await world.run();
  expect(await world.remains()).toEqual(["sandbox 0 READY", "one 0 EXITED", "compute 0 RUNNING"]);
  await world.requestDeletion(30);
  await world.run();
  await world.run();
  expect(await world.remains()).toEqual([]);
  expect(await world.pod()).toBeUndefined();
  expect(world.runtime.calls.filter((call) => call.startsWith("runSandbox"))).toHaveLength(1);
  expect(world.files.paths).toEqual([]);
});

test("rejects a pod that requests more than the node has, with the resource", async () => {
  const resources = { requests: { memory: "200Gi" } };
  const world = await aWorld(aPod({ containers: [aContainer({ resources })] }));
  expect(await world.remains()).toEqual([]);
  expect((await world.pod())?.status).toMatchObject({ phase: "Failed", reason: "OutOfmemory" });
  expect(world.notes).toMatchObject([{ type: "Warning", reason: "OutOfmemory" }]);
});
