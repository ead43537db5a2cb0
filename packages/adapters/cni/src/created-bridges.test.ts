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

test("a bridge that an ADD created is recorded with its index, until the next boot", async () => {
  const result = await recorder().observe([BLUE], () => {
    putBridge("br-blue", 12);
    return Promise.resolve("result");
  });
  expect(result).toBe("result");
  expect(await listCreatedBridges(files, AT)).toEqual([{ name: "br-blue", index: 12 }]);
  expect(await listCreatedBridges(files, { ...AT, bootId: "boot-2" })).toEqual([]);
});

test("a bridge that existed before the ADD is an administrator's", async () => {
  putBridge("br-blue", 12);
  await recorder().observe([BLUE], () => Promise.resolve());
  expect(await listCreatedBridges(files, AT)).toEqual([]);
});

test("a bridge that an administrator creates beside the ADD of another network is not recorded", async () => {
  await recorder().observe([BLUE], creates("br-admin", 13));
  expect(await listCreatedBridges(files, AT)).toEqual([]);
});

test("a failed ADD leaves its bridge, which is recorded", async () => {
  const add = (): Promise<never> => {
    putBridge("br-blue", 12);
    return Promise.reject(new Error("no address left"));
  };
  await expect(recorder().observe([BLUE], add)).rejects.toThrow("no address left");
  expect(await listCreatedBridges(files, AT)).toEqual([{ name: "br-blue", index: 12 }]);
});

test("a bridge that is created again has its new index", async () => {
  await recorder().observe([BLUE], creates("br-blue", 12));
  links = [];
  await recorder().observe([BLUE], creates("br-blue", 20));
  expect(await listCreatedBridges(files, AT)).toEqual([{ name: "br-blue", index: 20 }]);
});

test("an ADD runs although links cannot be listed, and nothing is recorded", async () => {
  listHostLinks = () => Promise.reject(new Error("netlink is busy"));
  expect(await recorder().observe([BLUE], () => Promise.resolve(1))).toBe(1);
  expect(log.lines.map(({ level, fields }) => [level, fields["reason"]])).toEqual([
    ["warn", "netlink is busy"],
  ]);
  expect(await listCreatedBridges(files, AT)).toEqual([]);
});

test("a record that is not readable names no bridge", async () => {
  await files.ensureDirectory("/state/bridges");
  await files.writeAtomic("/state/bridges/a.json", "{");
  await files.writeAtomic("/state/bridges/b.json", '{"name":"b","bootId":"boot-1"}');
  expect(await listCreatedBridges(files, AT)).toEqual([]);
});

test("plugins whose ADDs are recorded answer as before", async () => {
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
