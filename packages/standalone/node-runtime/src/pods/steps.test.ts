// SPDX-License-Identifier: Apache-2.0
import { CONFIG_MAPS, SECRETS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import { beforeEach, describe, expect, test } from "vitest";
import { aContainer, aPod, UID } from "../testing/pods.ts";
import { PodWorld } from "../testing/world.ts";
import type { PodDeps } from "./deps.ts";
import { observe } from "./observe.ts";
import { reconcilePod } from "./reconcile-pod.ts";
import { startVolumes, executeStep, type Progress, type ExecutedAction } from "./steps.ts";

let world: PodWorld;
let deps: PodDeps;
let sweeps: number;
/** Directories that were made, with their modes. */
let directories: string[];

beforeEach(() => {
  world = new PodWorld();
  sweeps = 0;
  directories = [];
  const ensureDirectory = world.files.ensureDirectory.bind(world.files);
  world.files.ensureDirectory = (path, mode = 0) => {
    directories.push(`${path} ${mode.toString(8)}`);
    return ensureDirectory(path);
  };
  const sweeper = {
    sweep: () => {
      sweeps += 1;
      return Promise.resolve();
    },
    sweepAfterInterruption: () => undefined,
  };
  deps = { ...world.deps, sweeper };
});

function aProgress(change: Partial<Progress> = {}): Progress {
  return { sandboxContext: undefined, volumes: undefined, pendingVolumes: undefined, ...change };
}

async function take(action: ExecutedAction, progress = aProgress()): Promise<Progress> {
  await executeStep(deps, await observe(UID, deps), { action, progress });
  return progress;
}

async function putPod(pod: Pod = aPod()): Promise<void> {
  await world.put(pod);
}

describe("a sandbox", () => {
  test("is created with root-only directories and a hosts file that names the pod", async () => {
    await putPod();
    const { sandboxContext } = await take({ kind: "runSandbox", attempt: 4 });
    expect(sandboxContext).toMatchObject({
      ips: ["10.244.0.2"],
      config: { metadata: { attempt: 4 } },
    });
    expect(directories).toEqual([`/logs/ns_a_${UID} 700`, `/p/${UID} 750`]);
    const [hosts = ""] = world.files.paths;
    expect(await world.files.readText(hosts)).toMatch(/^10\.244\.0\.2\ta$/m);
  });

  test("is not used if it disappears at once", async () => {
    await putPod();
    world.runtime.findSandbox = () => Promise.resolve(undefined);
    expect((await take({ kind: "runSandbox", attempt: 0 })).sandboxContext).toBeUndefined();
  });

  test("is recorded as released from stop to removal", async () => {
    await putPod();
    const { sandboxContext } = await take({ kind: "runSandbox", attempt: 0 });
    const id = sandboxContext?.id ?? "";
    await take({ kind: "stopSandbox", id });
    expect([...deps.releasedSandboxIds]).toEqual([id]);
    await take({ kind: "removeSandbox", id });
    expect([...deps.releasedSandboxIds]).toEqual([]);
  });

  test.each([
    { name: "by itself", kill: true, want: 1 },
    { name: "in an orderly stop", kill: false, want: 0 },
  ])("that ended $name is swept after removal: $want times", async ({ kill, want }) => {
    await putPod();
    const { sandboxContext } = await take({ kind: "runSandbox", attempt: 0 });
    if (kill) world.runtime.killSandbox(sandboxContext?.id ?? "");
    await take({ kind: "removeSandbox", id: sandboxContext?.id ?? "" });
    expect([await world.remains(), sweeps]).toEqual([[], want]);
  });
});

describe("volumes", () => {
  test("are prepared when their step is due", async () => {
    await putPod(aPod({ volumes: [{ name: "v", emptyDir: {} }] }));
    const { volumes } = await take({ kind: "prepareVolumes" });
    expect(volumes).toEqual(new Map([["v", `/p/${UID}/v`]]));
  });

  test("that are already in preparation are awaited, not prepared twice", async () => {
    await putPod();
    const pendingVolumes = Promise.resolve(new Map([["v", "/early"]]));
    const { volumes } = await take({ kind: "prepareVolumes" }, aProgress({ pendingVolumes }));
    expect(volumes).toEqual(await pendingVolumes);
    expect(directories).toEqual([]);
  });

  test("are prepared for a pod, but not for a deleted one", async () => {
    const progress = aProgress();
    startVolumes(deps, await observe(UID, deps), progress);
    expect(progress.pendingVolumes).toBeUndefined();
    await putPod();
    startVolumes(deps, await observe(UID, deps), progress);
    expect(await progress.pendingVolumes).toEqual(new Map());
  });
});

describe("a container", () => {
  const start = { kind: "startContainer", container: "compute", attempt: 0 } as const;

  test("starts in the running sandbox, even if a previous process created it", async () => {
    await putPod();
    await take({ kind: "runSandbox", attempt: 0 });
    await take(start, aProgress({ volumes: new Map() }));
    expect(await world.remains()).toContain("compute 0 RUNNING");
  });

  test.each([
    { name: "the sandbox does not exist", action: start, volumes: new Map<string, string>() },
    {
      name: "the sandbox belongs to another pod",
      action: { ...start, container: "other" },
      volumes: new Map<string, string>(),
    },
  ])("is not created when $name", async ({ action, volumes }) => {
    await putPod();
    if (action !== start) await take({ kind: "runSandbox", attempt: 0 });
    await take(action, aProgress({ volumes }));
    expect(world.runtime.calls.filter((call) => /Container/.test(call))).toEqual([]);
  });

  test("is not created before its volumes", async () => {
    await putPod();
    await take({ kind: "runSandbox", attempt: 0 });
    await take(start);
    expect(world.runtime.calls.filter((call) => /Container/.test(call))).toEqual([]);
  });

  test("is stopped and removed", async () => {
    await putPod();
    await world.run();
    const id = await world.running();
    await take({ kind: "stopContainer", id, graceSeconds: 3 });
    expect(world.runtime.calls).toContain(`stopContainer ${id} 3`);
    await take({ kind: "removeContainer", id });
    expect(await world.remains()).toEqual(["sandbox 0 READY"]);
  });
});

test("does not pull an image that the pod does not need", async () => {
  await putPod(aPod({ containers: [aContainer({ image: "reg/x:1" })] }));
  await take({ kind: "pullImage", reference: "reg/other:1" });
  expect(world.runtime.calls).toEqual([]);
  await take({ kind: "pullImage", reference: "reg/x:1" });
  expect(world.notes.map(({ about }) => about)).toContain("reg/x:1");
});

test("removes the pod's logs, its directory and its state, without affecting other pods", async () => {
  const kept: unknown[] = [];
  deps = {
    ...deps,
    probes: { retain: (...call) => void kept.push(call), findHealth: () => new Map() },
  };
  for (const path of [`/logs/ns_a_${UID}/x`, `/logs/ns_b_0${UID}0/x`, `/p/${UID}/x`]) {
    await world.files.writeAtomic(path, "");
  }
  deps.stepBackoff.fail(
    { scope: UID, name: "sandbox", inputs: "x" },
    { code: "CRI_FAILED", summary: { reason: "r", message: "m" } },
  );
  await take({ kind: "removeRemains" });
  expect(world.files.paths).toEqual([`/logs/ns_b_0${UID}0/x`]);
  expect(kept).toEqual([[UID, []]]);
  expect(deps.stepBackoff.findDelay({ scope: UID, name: "sandbox", inputs: "x" })).toBeUndefined();
});

test("a step that needs the object does nothing after its deletion", async () => {
  await take({ kind: "runSandbox", attempt: 0 });
  await take({ kind: "deleteObject" });
  expect([world.runtime.calls, world.writes]).toEqual([[], []]);
});

test("deletes the object at once, by its uid", async () => {
  await putPod();
  const options: unknown[] = [];
  world.store.delete = (_type, _key, given) => Promise.resolve(void options.push(given));
  await take({ kind: "deleteObject" });
  expect(options).toEqual([{ gracePeriodSeconds: 0, uid: UID }]);
});

describe("one pass", () => {
  test.each([
    { code: "KUBE_NOT_FOUND", passes: true },
    { code: "KUBE_CONFLICT", passes: false },
  ] as const)("continues after $code from the status report: $passes", async ({ code, passes }) => {
    await putPod();
    const error = new AppError(code, { resource: "pods", object: "ns/a" });
    world.store.patch = () => Promise.reject(error);
    const thrown = await reconcilePod(UID, deps).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(thrown).toBe(passes ? undefined : error);
  });

  test("probes running containers with the addresses of their pod", async () => {
    const probed: string[] = [];
    deps = {
      ...deps,
      probes: {
        retain: (uid, all) => {
          for (const { container, podIps } of all)
            probed.push([uid, container.name, container.state, ...podIps].join(" "));
        },
        findHealth: () => new Map(),
      },
    };
    await putPod();
    await world.run();
    await reconcilePod(UID, deps);
    expect(probed).toEqual([`${UID} compute RUNNING 10.244.0.2`]);
    await world.requestDeletion(30);
    world.runtime.ignoresStop = () => true;
    await reconcilePod(UID, deps);
    expect(probed).toHaveLength(1);
  });

  test("of a waiting pod is repeated at the end of the wait", async () => {
    await putPod();
    await world.run();
    await world.requestDeletion(30);
    world.runtime.ignoresStop = () => true;
    expect(await reconcilePod(UID, deps)).toMatchObject({ kind: "after", ms: 30_000 });
  });
});

const volumes = [{ name: "v", persistentVolumeClaim: { claimName: "data" } }];
const volumeDevices = [{ name: "v", devicePath: "/dev/v" }];
const POD = aPod({ volumes, containers: [aContainer({ volumeDevices })] });

/** A world whose volume is of that kind. */
async function aWorld(kind: "Directory" | "BlockDevice" | undefined): Promise<PodWorld> {
  const world = new PodWorld();
  if (kind !== undefined) world.disk.setKind(`/p/${UID}/v`, kind);
  await world.put(POD);
  await world.run();
  return world;
}

test("passes a block device to the container", async () => {
  const world = await aWorld("BlockDevice");
  expect(await world.remains()).toContain("compute 0 RUNNING");
});

test.each([
  { kind: "Directory", words: "is Directory" },
  { kind: undefined, words: "is not there" },
] as const)("reports a device that $words, and creates no container", async ({ kind, words }) => {
  const world = await aWorld(kind);
  expect(await world.remains()).toEqual(["sandbox 0 READY"]);
  const waiting = (await world.pod())?.status?.containerStatuses?.[0]?.state.waiting;
  expect(waiting?.message).toContain(`/p/${UID}/v must be a device, and ${words}`);
});

/** The configuration with which the runtime made the pod's container. */
async function madeOf(world: PodWorld) {
  return world.runtime.findContainerConfig(await world.running());
}

function withEnv(env: NonNullable<Pod["spec"]["containers"][number]["env"]>): Pod {
  return aPod({ containers: [aContainer({ env })] });
}

test("reads variables from ConfigMaps and Secrets of the pod's namespace", async () => {
  const world = new PodWorld();
  const meta = (name: string, namespace = "ns") => ({ metadata: { name, namespace } });
  world.store.put(CONFIG_MAPS, {
    apiVersion: "v1",
    kind: "ConfigMap",
    ...meta("settings"),
    data: { mode: "fast" },
  });
  world.store.put(CONFIG_MAPS, {
    apiVersion: "v1",
    kind: "ConfigMap",
    ...meta("settings", "other"),
    data: { mode: "wrong" },
  });
  world.store.put(SECRETS, {
    apiVersion: "v1",
    kind: "Secret",
    ...meta("keys"),
    data: { token: Buffer.from("pass").toString("base64") },
  });
  await world.put(
    withEnv([
      { name: "MODE", valueFrom: { configMapKeyRef: { name: "settings", key: "mode" } } },
      { name: "TOKEN", valueFrom: { secretKeyRef: { name: "keys", key: "token" } } },
    ]),
  );
  await world.run();
  const env = (await madeOf(world))?.env.map((pair) => pair.join("="));
  expect(env).toEqual(expect.arrayContaining(["MODE=fast", "TOKEN=pass"]));
});

test.each([
  { name: "a ConfigMap", valueFrom: { configMapKeyRef: { name: "settings", key: "mode" } } },
  { name: "a Secret", valueFrom: { secretKeyRef: { name: "settings", key: "mode" } } },
])("a container waits for $name that does not exist", async ({ valueFrom }) => {
  const world = new PodWorld();
  await world.put(withEnv([{ name: "MODE", valueFrom }]));
  await world.run();
  const [status] = (await world.pod())?.status?.containerStatuses ?? [];
  expect(status?.state.waiting?.reason).toBe("CreateContainerConfigError");
  expect(status?.state.waiting?.message).toContain("settings");
});

test.each(["ConfigMap", "Secret"])("an empty %s has no keys", async (kind) => {
  const world = new PodWorld();
  const metadata = { name: "empty", namespace: "ns" };
  world.store.put(kind === "Secret" ? SECRETS : CONFIG_MAPS, { apiVersion: "v1", kind, metadata });
  const reference = { name: "empty", key: "mode", optional: true };
  const valueFrom =
    kind === "Secret" ? { secretKeyRef: reference } : { configMapKeyRef: reference };
  await world.put(withEnv([{ name: "MODE", valueFrom }]));
  await world.run();
  expect((await madeOf(world))?.env.map(([name]) => name)).not.toContain("MODE");
});

test("creates the root-only log directory before the container", async () => {
  const world = new PodWorld();
  const made: string[] = [];
  const ensureDirectory = world.files.ensureDirectory.bind(world.files);
  world.files.ensureDirectory = (path, mode = 0) => {
    made.push(`${path} ${mode.toString(8)}`);
    return ensureDirectory(path);
  };
  await world.put(POD);
  world.disk.setKind(`/p/${UID}/v`, "CharDevice");
  await world.run();
  expect(await world.remains()).toContain("compute 0 RUNNING");
  expect(made).toContain(`/logs/ns_a_${UID}/compute 700`);
});
