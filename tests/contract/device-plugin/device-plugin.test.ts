// SPDX-License-Identifier: Apache-2.0
// A node device, offered to a kubelet that validates every message.
import { execFileSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { offerDevice } from "@patchbay/device-plugin";
import { TestKubelet } from "@patchbay/device-plugin/testing";
import { createClock, createDeviceNodes, createFiles, createProcessRunner } from "@patchbay/os";
import type { DeviceNodes } from "@patchbay/core/interfaces";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";

const RESOURCE = "devices.kubevirt.io/tun";
const OFFER = { resource: RESOURCE, path: "/dev/net/tun", permissions: "rw", count: 5 };
const USER = { uid: 107, gid: 107 };
const COPY = "/run/patchbay/devices/tun";
const TIMEOUT = { withinMs: 10_000 };

let directory: string;
let kubelet: TestKubelet;
let stop: AbortController;
let offering: Promise<void>;
let log: ReturnType<typeof createFakeLogger>;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "device-"));
  kubelet = new TestKubelet(join(directory, "kubelet"));
  mkdirSync(join(directory, "host/dev/net"), { recursive: true });
  makeTun();
  stop = new AbortController();
  offering = Promise.resolve();
  log = createFakeLogger();
});
afterEach(async () => {
  stop.abort(new Error("the test is over"));
  await offering;
  kubelet.stop();
  rmSync(directory, { recursive: true, force: true });
  if (kubelet.faults.length > 0)
    throw new Error(`against the protocol: ${kubelet.faults.join("; ")}`);
});

const NODES = createDeviceNodes({ runner: createProcessRunner() });

function offer(nodes: DeviceNodes = NODES): void {
  const places = { kubeletDir: join(directory, "kubelet"), hostRoot: join(directory, "host") };
  const deps = { nodes, files: createFiles(), clock: createClock(), log };
  offering = offerDevice(OFFER, { places, user: USER, deps }, stop.signal);
}

/** The node's device, which only root may open. */
function makeTun(minor = 200): void {
  const path = join(directory, "host/dev/net/tun");
  execFileSync("mknod", ["-m", "0600", path, "c", "10", String(minor)]);
}

/** The device in containers: type, numbers, owner, group and mode. */
function copied(): string {
  const path = join(directory, "host", COPY);
  return execFileSync("stat", ["-c", "%F %Hr:%Lr %u:%g %a", path], { encoding: "utf8" }).trim();
}

/** Resolves when the kubelet counts all of them, and so many are healthy. */
async function offered(healthy: number = OFFER.count): Promise<void> {
  const isSo = (): boolean =>
    kubelet.capacity(RESOURCE) === OFFER.count && kubelet.allocatable(RESOURCE) === healthy;
  await eventually(isSo, TIMEOUT);
}

test("registers, lists and allocates the device", async () => {
  await kubelet.start();
  offer();
  await offered();
  expect(kubelet.registrations).toEqual([
    {
      version: "v1beta1",
      endpoint: "patchbay-tun.sock",
      resourceName: RESOURCE,
      options: { preStartRequired: false, getPreferredAllocationAvailable: false },
    },
  ]);
  const tun = { containerPath: "/dev/net/tun", hostPath: COPY, permissions: "rw" };
  const nothing = { envs: {}, mounts: [], annotations: {}, cdiDevices: [] };
  expect(await kubelet.allocate(RESOURCE, [1, 2, 0])).toEqual([
    { ...nothing, devices: [tun] },
    { ...nothing, devices: [tun] },
    { ...nothing, devices: [] },
  ]);
  expect(copied()).toBe("character special file 10:200 107:107 600");
  expect(await kubelet.call(RESOURCE, "PreStartContainer", { devicesIds: ["tun-0"] })).toEqual({});
  await expect(
    kubelet.call(RESOURCE, "GetPreferredAllocation", { containerRequests: [] }),
  ).rejects.toMatchObject({ code: 12 });
  await expect(
    kubelet.allocateIds(RESOURCE, [{ devicesIds: ["tun-0", "kvm-1"] }]),
  ).rejects.toMatchObject({ code: 3, details: `${RESOURCE} has no device kvm-1` });
});

test("reports the health of its file when it changes", async () => {
  await kubelet.start();
  offer();
  await offered();
  rmSync(join(directory, "host/dev/net/tun"));
  await offered(0);
  await expect(kubelet.allocate(RESOURCE, [1])).rejects.toMatchObject({
    code: 9,
    details: `${RESOURCE} cannot be allocated: this node has no /dev/net/tun`,
  });
  expect(readdirSync(join(directory, "host", dirname(COPY)))).toEqual([]);
  makeTun();
  await offered();
  expect(kubelet.registrations).toHaveLength(1);
});

test("containers get the device as it is at allocation", async () => {
  await kubelet.start();
  offer();
  await offered();
  const path = join(directory, "host/dev/net/tun");
  const before = lstatSync(join(directory, "host", COPY)).ino;
  await kubelet.allocate(RESOURCE, [1]);
  expect(lstatSync(join(directory, "host", COPY)).ino).toBe(before);
  rmSync(path);
  makeTun(201);
  await kubelet.allocate(RESOURCE, [1]);
  expect(copied()).toBe("character special file 10:201 107:107 600");
  rmSync(join(directory, "host/run"), { recursive: true });
  await kubelet.allocate(RESOURCE, [1, 1]);
  expect(copied()).toBe("character special file 10:201 107:107 600");
  expect(lstatSync(path)).toMatchObject({ uid: 0, gid: 0 });
});

test("allocates a new device although its absence is still being detected", async () => {
  const held = Promise.withResolvers<undefined>();
  const observed: string[] = [];
  await kubelet.start();
  offer({
    ensureCopy: async (copy) => {
      const outcome = await NODES.ensureCopy(copy);
      observed.push(outcome);
      if (outcome === "removed") await held.promise;
      return outcome;
    },
  });
  await offered();
  rmSync(join(directory, "host/dev/net/tun"));
  await eventually(() => observed.includes("removed"), TIMEOUT);
  makeTun(201);
  const input = kubelet.allocate(RESOURCE, [1]);
  // Calls of one connection are ordered: after this response, the earlier one has arrived.
  await kubelet.call(RESOURCE, "PreStartContainer", { devicesIds: ["tun-0"] });
  held.resolve(undefined);
  expect(await input).toHaveLength(1);
  expect(copied()).toBe("character special file 10:201 107:107 600");
});

test("allocates nothing and reports why when the device cannot be created", async () => {
  await kubelet.start();
  offer();
  await offered();
  rmSync(join(directory, "host/run"), { recursive: true });
  writeFileSync(join(directory, "host/run"), "");
  await expect(kubelet.allocate(RESOURCE, [1])).rejects.toMatchObject({
    code: 9,
    details: expect.stringContaining("/run/patchbay/devices") as string,
  });
});

test("counts a missing device as unhealthy", async () => {
  rmSync(join(directory, "host/dev/net"), { recursive: true });
  await kubelet.start();
  offer();
  await offered(0);
  mkdirSync(join(directory, "host/dev/net"));
  makeTun();
  await offered();
  expect(kubelet.registrations).toHaveLength(1);
});

test("registers again after each kubelet restart", async () => {
  await kubelet.start();
  offer();
  await offered();
  for (const times of [2, 3, 4]) {
    kubelet.stop();
    await kubelet.start();
    await offered();
    expect(kubelet.registrations).toHaveLength(times);
  }
  expect(await kubelet.allocate(RESOURCE, [1])).toHaveLength(1);
});

test("recreates and registers a deleted socket", async () => {
  await kubelet.start();
  offer();
  await offered();
  rmSync(join(directory, "kubelet/device-plugins/patchbay-tun.sock"));
  await eventually(() => kubelet.registrations.length === 2, TIMEOUT);
  await offered();
  expect(await kubelet.allocate(RESOURCE, [1])).toHaveLength(1);
});

test("waits for a kubelet that starts later and logs it once", async () => {
  offer();
  const waits = (): number => log.lines.filter(({ message }) => /waiting/.test(message)).length;
  await eventually(() => waits() === 1, TIMEOUT);
  await kubelet.start();
  await offered();
  expect(waits()).toBe(1);
});

test("retries a kubelet that refuses, and logs its reason once", async () => {
  kubelet.refusal = "the name is taken";
  await kubelet.start();
  offer();
  await eventually(() => kubelet.registrations.length > 2, TIMEOUT);
  const reported = log.lines.filter(({ message }) => message === "resource is not offered");
  expect(reported).toMatchObject([
    { fields: { reason: expect.stringContaining("taken") as string } },
  ]);
  kubelet.refusal = undefined;
  await offered();
});

test("leaves nothing when stopped", async () => {
  await kubelet.start();
  offer();
  await offered();
  stop.abort(new Error("stopped"));
  await offering;
  await eventually(() => kubelet.capacity(RESOURCE) === undefined, TIMEOUT);
  expect(readdirSync(join(directory, "kubelet/device-plugins"))).toEqual(["kubelet.sock"]);
  expect(existsSync(join(directory, "host/dev/net/tun"))).toBe(true);
});
