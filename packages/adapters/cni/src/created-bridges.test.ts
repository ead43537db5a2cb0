// SPDX-License-Identifier: Apache-2.0
import type { Link, NetworkConfigList } from "@patchbay/core/interfaces";
import { createFakeFiles } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { beforeEach, expect, test } from "vitest";
import { createBridgeRecorder, listCreatedBridges, recordBridges } from "./created-bridges.ts";
import { createFakeCni } from "./testing/fakes/cni.ts";

const AT = { stateDir: "/state", bootId: "boot-1" };
const BLUE: NetworkConfigList = {
  cniVersion: "1.0.0",
  name: "blue",
  plugins: [{ type: "bridge", bridge: "br-blue" }],
};

let files = createFakeFiles();
let log = createFakeLogger();
let links: Link[];
let listHostLinks: () => Promise<readonly Link[]>;

beforeEach(() => {
  files = createFakeFiles();
  log = createFakeLogger();
  links = [];
  listHostLinks = () => Promise.resolve([...links]);
});

/** What an ADD does that creates a bridge. */
function creates(name: string, index: number): () => Promise<void> {
  return () => {
    putBridge(name, index);
    return Promise.resolve();
  };
}

function putBridge(name: string, index: number): void {
  links.push({
    name,
    index,
    kind: "bridge",
    mac: "",
    mtu: 1500,
    up: true,
    carrier: true,
    addresses: [],
  });
}

function recorder(bootId = AT.bootId) {
  return createBridgeRecorder({
    files,
    log,
    bootId,
    stateDir: AT.stateDir,
    listHostLinks: () => listHostLinks(),
  });
}

test("records a bridge that an ADD created with its index, until the next boot", async () => {
  const result = await recorder().observe([BLUE], () => {
    putBridge("br-blue", 12);
    return Promise.resolve("result");
  });
  expect(result).toBe("result");
  expect(await listCreatedBridges(files, AT)).toEqual([{ name: "br-blue", index: 12 }]);
  expect(await listCreatedBridges(files, { ...AT, bootId: "boot-2" })).toEqual([]);
});

test("does not record a bridge that existed before the ADD", async () => {
  putBridge("br-blue", 12);
  await recorder().observe([BLUE], () => Promise.resolve());
  expect(await listCreatedBridges(files, AT)).toEqual([]);
});

test("does not record a bridge that an administrator creates during the ADD of another network", async () => {
  await recorder().observe([BLUE], creates("br-admin", 13));
  expect(await listCreatedBridges(files, AT)).toEqual([]);
});

test("records the bridge that a failed ADD created", async () => {
  const add = (): Promise<never> => {
    putBridge("br-blue", 12);
    return Promise.reject(new Error("no address left"));
  };
  await expect(recorder().observe([BLUE], add)).rejects.toThrow("no address left");
  expect(await listCreatedBridges(files, AT)).toEqual([{ name: "br-blue", index: 12 }]);
});

test("records the new index of a recreated bridge", async () => {
  await recorder().observe([BLUE], creates("br-blue", 12));
  links = [];
  await recorder().observe([BLUE], creates("br-blue", 20));
  expect(await listCreatedBridges(files, AT)).toEqual([{ name: "br-blue", index: 20 }]);
});

test("runs an ADD although links cannot be listed, and records nothing", async () => {
  listHostLinks = () => Promise.reject(new Error("netlink is busy"));
  expect(await recorder().observe([BLUE], () => Promise.resolve(1))).toBe(1);
  expect(log.lines.map(({ level, fields }) => [level, fields["reason"]])).toEqual([
    ["warn", "netlink is busy"],
  ]);
  expect(await listCreatedBridges(files, AT)).toEqual([]);
});

test("an unreadable record names no bridge", async () => {
  await files.ensureDirectory("/state/bridges");
  await files.writeAtomic("/state/bridges/a.json", "{");
  await files.writeAtomic("/state/bridges/b.json", '{"name":"b","bootId":"boot-1"}');
  expect(await listCreatedBridges(files, AT)).toEqual([]);
});

test("recording does not change the plugins' answers", async () => {
  const cni = createFakeCni({
    attached: () => {
      putBridge("br-blue", 12);
    },
  });
  const request = {
    containerId: "box",
    netnsPath: "/run/netns/box",
    interfaceName: "net1",
    config: BLUE,
    args: [],
    capabilityArgs: {},
  };
  const recorded = recordBridges(cni, recorder());
  const result = await recorded.add(request);
  expect(await listCreatedBridges(files, AT)).toEqual([{ name: "br-blue", index: 12 }]);
  expect(await recorded.check(request, result)).toBe(await cni.check(request, result));
  expect(await recorded.status(BLUE)).toBe(await cni.status(BLUE));
  await recorded.del(request, result);
  await recorded.releaseAddresses(request);
  expect(await recorded.gc(BLUE, () => Promise.resolve([]))).toBe(
    await cni.gc(BLUE, () => Promise.resolve([])),
  );
});
