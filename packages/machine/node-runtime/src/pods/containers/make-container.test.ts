// SPDX-License-Identifier: Apache-2.0
// What is looked at before a container is made, on a node in memory.
import { CONFIG_MAPS, SECRETS, type Pod } from "@patchbay/api";
import { expect, test } from "vitest";
import { aContainer, aPod, UID } from "../../testing/pods.ts";
import { PodWorld } from "../../testing/world.ts";

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

test("a device that is one is given to the container", async () => {
  const world = await aWorld("BlockDevice");
  expect(await world.remains()).toContain("compute 0 RUNNING");
});

test.each([
  { kind: "Directory", words: "is Directory" },
  { kind: undefined, words: "is not there" },
] as const)(
  "a device that $words makes no container, and its pod says so",
  async ({ kind, words }) => {
    const world = await aWorld(kind);
    expect(await world.remains()).toEqual(["sandbox 0 READY"]);
    const waiting = (await world.pod())?.status?.containerStatuses?.[0]?.state.waiting;
    expect(waiting?.message).toContain(`/p/${UID}/v would be its device, and ${words}`);
  },
);

/** The configuration with which the runtime made the pod's container. */
async function madeOf(world: PodWorld) {
  return world.runtime.containerConfigOf(await world.running());
}

function withEnv(env: NonNullable<Pod["spec"]["containers"][number]["env"]>): Pod {
  return aPod({ containers: [aContainer({ env })] });
}

test("variables are read from ConfigMaps and Secrets of the pod's namespace", async () => {
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

test("the directory of a container's log is made for root only, before the container", async () => {
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
