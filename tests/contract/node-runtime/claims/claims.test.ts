// SPDX-License-Identifier: Apache-2.0
// Claims with the program node-runtime, a real API server, a real containerd and this machine's disk.
import { existsSync, readdirSync } from "node:fs";
import type { Pod } from "@patchbay/api/kubernetes";
import { eventually } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Body } from "../../apiserver/harness.ts";
import { PODS, RuntimeMachine, shellPod } from "../machine.ts";
import { deleteDataVolumes, diskOf, fill, isFilled, readerOf, serveStorage } from "./fill.ts";

const IMAGES_MS = 180_000;
const TEST_TIMEOUT_MS = 120_000;
/** Longer than the inner waits, which report what is left. */
const CLEANUP_MS = 400_000;
const CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES = "/api/v1/persistentvolumes";
const TIMEOUT = { withinMs: 30_000 };
const MEBIBYTE = 2 ** 20;
let machine: RuntimeMachine;

beforeAll(async () => {
  machine = await RuntimeMachine.start();
  await serveStorage(machine);
}, IMAGES_MS);
afterEach(async () => {
  await deleteDataVolumes(machine);
  await machine.clear();
  for (const { metadata } of (await machine.api.get(CLAIMS)).body.items) {
    await machine.api.delete(`${CLAIMS}/${metadata.name}`);
  }
  await nothingStored();
}, CLEANUP_MS);
afterAll(async () => {
  await machine.close();
});

async function nothingStored(): Promise<void> {
  await eventually(async () => {
    const objects = (await machine.api.get(VOLUMES)).body.items.map(
      ({ metadata }) => metadata.name,
    );
    const remaining = [...objects, ...readdirSync(machine.path("claims"))];
    if (remaining.length > 0) throw new Error(remaining.join(" "));
    return true;
  }, TIMEOUT);
}

async function makeClaim(name: string, spec: Readonly<Record<string, unknown>> = {}) {
  const resources = { requests: { storage: "16Mi" } };
  const claim = { accessModes: ["ReadWriteOnce"], resources, ...spec };
  expect((await machine.api.post(CLAIMS, { metadata: { name }, spec: claim })).code).toBe(201);
}

function claimed(name: string, script: string, change: Partial<Pod["spec"]> = {}): object {
  const { image = "" } = imageOf();
  const command = ["/bin/sh", "-c", script];
  return shellPod(name, "", {
    terminationGracePeriodSeconds: 1,
    containers: [
      { name: "compute", image, command, volumeMounts: [{ name: "v", mountPath: "/v" }] },
    ],
    volumes: [{ name: "v", persistentVolumeClaim: { claimName: "data" } }],
    ...change,
  });
}

function imageOf(): { readonly image?: string } {
  const { spec } = shellPod("x", "") as Pod;
  return spec.containers[0] ?? {};
}

async function claim(name = "data"): Promise<Body> {
  return (await machine.api.get(`${CLAIMS}/${name}`)).body;
}

/** Reasons of the events on claims. */
async function reasons(): Promise<readonly string[]> {
  const { body } = await machine.api.get("/api/v1/namespaces/default/events");
  // Events have these members.
  const events = body.items as unknown as readonly { reason: string; message: string }[];
  return events.map(({ reason }) => reason);
}

async function succeed(name: string): Promise<void> {
  await machine.inPhase(name, "Succeeded");
  await machine.api.delete(`${PODS}/${name}`);
  expect(await machine.isGone(name)).toBe(true);
}

test(
  "data persists for the next pod with the pod's group and is deleted with the claim",
  async () => {
    await makeClaim("data");
    await eventually(async () => (await reasons()).includes("WaitForFirstConsumer"), TIMEOUT);
    expect((await claim()).status).toEqual({ phase: "Pending" });
    await machine.create(claimed("writer", "id && echo kept > /v/file && sync"));
    await succeed("writer");
    const { metadata, spec, status } = await claim();
    expect(status).toEqual({
      phase: "Bound",
      accessModes: ["ReadWriteOnce"],
      capacity: { storage: "16Mi" },
    });
    expect(spec).toMatchObject({
      volumeName: `pvc-${metadata.uid}`,
      storageClassName: "local",
    });
    expect((await machine.api.get(`${VOLUMES}/pvc-${metadata.uid}`)).body.status).toEqual({
      phase: "Bound",
    });
    await machine.nothingRemains(10_000); // neither a mount nor a loop device
    await machine.create(claimed("reader", 'test "$(cat /v/file)" = kept'));
    await succeed("reader");
    await machine.api.delete(`${CLAIMS}/data`);
    await nothingStored();
  },
  TEST_TIMEOUT_MS,
);

test(
  "warns no user while a claim is provisioned for its first pod, but when it waits for a missing volume",
  async () => {
    await using pods = await machine.api.watch(`${PODS}?watch=1`);
    const unscheduled = (): readonly string[] =>
      pods.events.flatMap(({ object }) => {
        const { conditions = [] } = object.status as NonNullable<Pod["status"]>;
        const reported = conditions.filter(({ reason }) => reason === "Unschedulable");
        return reported.map(({ message = "" }) => `${object.metadata.name}: ${message}`);
      });
    await makeClaim("data");
    await machine.create(claimed("first", "true"));
    await succeed("first");
    expect(unscheduled()).toEqual([]);
    await makeClaim("named", { volumeName: "old" });
    const volumes = [{ name: "v", persistentVolumeClaim: { claimName: "named" } }];
    await machine.create(claimed("second", "true", { volumes }));
    const want = 'second: persistentvolumeclaim "named" names volume "old", which does not exist';
    await eventually(() => unscheduled().includes(want), TIMEOUT);
  },
  TEST_TIMEOUT_MS,
);

test(
  "a claim is full at its size",
  async () => {
    await makeClaim("data");
    const write = "head -c 16777216 /dev/zero > /v/fits && ! head -c 16777216 /dev/zero > /v/more";
    await machine.create(claimed("writer", write));
    expect((await machine.inPhase("writer", "Succeeded")).status?.phase).toBe("Succeeded");
  },
  TEST_TIMEOUT_MS,
);

test(
  "a Block claim is a device of its size that retains its data",
  async () => {
    await makeClaim("data", { volumeMode: "Block" });
    const device = (script: string, name: string): object => {
      const { image = "" } = imageOf();
      const volumeDevices = [{ name: "v", devicePath: "/dev/data" }];
      const command = ["/bin/sh", "-c", script];
      return claimed(name, "", {
        containers: [{ name: "compute", image, command, volumeDevices }],
      });
    };
    const write =
      "test -b /dev/data && printf kept | dd of=/dev/data bs=4 seek=1000 conv=fsync && " +
      `test "$(tail -c +1 /dev/data | wc -c)" = ${String(16 * MEBIBYTE)}`;
    await machine.create(device(write, "writer"));
    await succeed("writer");
    await machine.nothingRemains(10_000);
    await machine.create(
      device('test "$(dd if=/dev/data bs=4 skip=1000 count=1)" = kept', "reader"),
    );
    await succeed("reader");
    await machine.create(claimed("mounter", "true"));
    await eventually(async () => (await reasons()).includes("FailedMount"), TIMEOUT);
    await machine.api.delete(`${PODS}/mounter?gracePeriodSeconds=0`);
  },
  TEST_TIMEOUT_MS,
);

test(
  "a claim in use survives a crash of the program and of the machine",
  async () => {
    await makeClaim("data");
    const script = "test -f /v/file || echo first > /v/file; cat /v/file; exec sleep 1000";
    await machine.create(claimed("user", script, { restartPolicy: "Always" }));
    await machine.inPhase("user", "Running");
    await machine.api.delete(`${CLAIMS}/data`);
    expect((await claim()).metadata.deletionTimestamp).toBeDefined();
    await machine.stopRuntime("SIGKILL");
    await machine.reboot();
    await machine.startRuntime();
    const { metadata } = await machine.inPhase("user", "Running");
    await eventually(async () => {
      const { state, attempt } = await machine.container(metadata.uid ?? "");
      return state === "RUNNING" && attempt > 0;
    }, TIMEOUT);
    const { body } = await machine.api.get(VOLUMES);
    expect(body.items).toHaveLength(1);
    await machine.api.delete(`${PODS}/user?gracePeriodSeconds=0`);
    await nothingStored();
    expect((await machine.api.get(`${CLAIMS}/data`)).code).toBe(404);
  },
  TEST_TIMEOUT_MS,
);

test(
  "a pod with a missing claim waits and names it",
  async () => {
    await machine.create(claimed("early", "true"));
    const messages = () =>
      machine
        .pod("early")
        .then((pod) => pod?.status?.conditions?.map(({ message }) => message) ?? []);
    await eventually(
      async () => (await messages()).includes('persistentvolumeclaim "data" not found'),
      TIMEOUT,
    );
    await makeClaim("data");
    await machine.inPhase("early", "Succeeded");
  },
  TEST_TIMEOUT_MS,
);

test(
  "a volume with Retain outlives its claim and can be claimed again",
  async () => {
    await makeClaim("data");
    await machine.create(claimed("writer", "echo kept > /v/file"));
    await succeed("writer");
    const { spec } = await claim();
    const at = `${VOLUMES}/${String(spec["volumeName"])}`;
    await machine.api.patch(at, { spec: { persistentVolumeReclaimPolicy: "Retain" } });
    await machine.api.delete(`${CLAIMS}/data`);
    const phaseOf = async (): Promise<unknown> => (await machine.api.get(at)).body.status;
    await eventually(async () => JSON.stringify(await phaseOf()).includes("Released"), TIMEOUT);
    expect(existsSync(machine.path("claims", String(spec["volumeName"]), "volume.img"))).toBe(true);
    await machine.api.patch(at, { spec: { claimRef: null } });
    await eventually(async () => JSON.stringify(await phaseOf()).includes("Available"), TIMEOUT);
    await makeClaim("data", { volumeName: spec["volumeName"] });
    await machine.create(claimed("reader", 'test "$(cat /v/file)" = kept'));
    await succeed("reader");
    await machine.api.patch(at, { spec: { persistentVolumeReclaimPolicy: "Delete" } });
  },
  TEST_TIMEOUT_MS,
);

test(
  "fills a claim from an image once, and another one from that claim",
  async () => {
    await machine.addDiskImage("golden", diskOf("golden"));
    await fill(machine, "data", { registry: { url: "docker://golden" } });
    await isFilled(machine, "data");
    await fill(machine, "copy", { pvc: { name: "data" } });
    await isFilled(machine, "copy");
    await machine.create(readerOf("copy", "golden"));
    await succeed("reader-of-copy");
    expect((await machine.pods()).map(({ metadata }) => metadata.name)).toEqual([]);
  },
  TEST_TIMEOUT_MS,
);
