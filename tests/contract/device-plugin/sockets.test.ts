// SPDX-License-Identifier: Apache-2.0
// Directories of vhost-user sockets, offered to a kubelet that validates every message, and removed.
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TestPodResources } from "@patchbay/device-plugin/testing";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ALL_SOCKETS, SOCKETS, SocketsNode } from "./sockets-node.ts";

const TIMEOUT = { withinMs: 20_000 };
const NOTHING = { envs: {}, mounts: [], devices: [], annotations: {}, cdiDevices: [] };

let node: SocketsNode;
beforeEach(async () => {
  node = new SocketsNode();
  await node.start();
});
afterEach(async () => {
  await node.close();
});

function accessOf(path: string): string {
  const { uid, gid, mode } = statSync(path);
  return `${String(uid)}:${String(gid)} ${(mode & 0o7777).toString(8)}`;
}

test("a container gets its own existing directory", async () => {
  const mount = (id: string) => ({
    containerPath: `/run/patchbay/vhost-user/${id}`,
    hostPath: `/run/patchbay/vhost-user-shown/${id}`,
    readOnly: true,
  });
  expect(await node.kubelet.allocate(SOCKETS.resource, [1, 0, 2])).toEqual([
    { ...NOTHING, mounts: [mount("sockets-0")] },
    NOTHING,
    { ...NOTHING, mounts: [mount("sockets-1"), mount("sockets-2")] },
  ]);
  for (const id of ["sockets-0", "sockets-1", "sockets-2"]) {
    expect(accessOf(node.madeIn(id))).toBe("0:0 750");
    expect(accessOf(node.shownOf(id))).toBe("0:107 750");
  }
  await expect(
    node.kubelet.allocateIds(SOCKETS.resource, [{ devicesIds: ["sockets-3"] }]),
  ).rejects.toMatchObject({ code: 3, details: `${SOCKETS.resource} has no device sockets-3` });
});

test("the dataplane gets all directories, writable", async () => {
  const path = "/run/patchbay/vhost-user";
  expect(await node.kubelet.allocate(ALL_SOCKETS.resource, [1])).toEqual([
    { ...NOTHING, mounts: [{ containerPath: path, hostPath: path, readOnly: false }] },
  ]);
  expect(accessOf(node.here(path))).toBe("0:0 755");
});

test("the next pod finds nothing of the previous one", async () => {
  await node.admit("one", "sockets-0");
  for (const path of [node.madeIn("sockets-0"), node.shownOf("sockets-0")]) {
    writeFileSync(join(path, "left"), "");
  }
  node.forget("one");
  await node.admit("two", "sockets-0");
  expect(readdirSync(node.madeIn("sockets-0"))).toEqual([]);
  expect(readdirSync(node.shownOf("sockets-0"))).toEqual([]);
});

test("removes a directory when no pod uses it, but not those of other pods and other users", async () => {
  await node.directories.make("another-machines");
  await node.admit("one", "sockets-0");
  await node.admit("two", "sockets-1");
  writeFileSync(join(node.madeIn("sockets-0"), "one.sock"), "");
  await node.asked(3);
  expect(await node.directories.list()).toEqual(["another-machines", "sockets-0", "sockets-1"]);
  node.forget("one");
  await eventually(() => !existsSync(node.madeIn("sockets-0")), TIMEOUT);
  expect(await node.directories.list()).toEqual(["another-machines", "sockets-1"]);
});

test("removes nothing while the kubelet does not answer, and logs it once", async () => {
  await node.admit("one", "sockets-0");
  node.podResources.close();
  node.forget("one");
  const reported = (): number =>
    node.log.lines.filter(
      ({ message }) => message === "unused socket directories cannot be removed",
    ).length;
  await eventually(() => reported() === 1, TIMEOUT);
  expect(existsSync(node.madeIn("sockets-0"))).toBe(true);
  node.podResources = new TestPodResources(node.here("/kubelet/pod-resources/kubelet.sock"));
  await node.podResources.start();
  await eventually(() => !existsSync(node.madeIn("sockets-0")), TIMEOUT);
  expect(reported()).toBe(1);
});

test("a node that cannot create directories reports why, and offers directories after its recovery", async () => {
  const unfit = new SocketsNode();
  const reported = (): readonly unknown[] =>
    unfit.log.lines
      .filter(({ message }) => message === "resource is not offered")
      .map(({ fields }) => fields["resource"]);
  try {
    mkdirSync(unfit.here("/run"));
    writeFileSync(unfit.here("/run/patchbay"), "");
    const started = unfit.start();
    await eventually(() => reported().length === 2, TIMEOUT);
    expect(new Set(reported())).toEqual(new Set([ALL_SOCKETS.resource, SOCKETS.resource]));
    expect(unfit.kubelet.allocatable(SOCKETS.resource)).toBeUndefined();
    rmSync(unfit.here("/run/patchbay"));
    await started;
    expect(reported()).toHaveLength(2);
  } finally {
    await unfit.close();
  }
});
