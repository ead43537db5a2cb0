// SPDX-License-Identifier: Apache-2.0
import { createFakeFiles } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { createResultCache } from "./result-cache.ts";

const CONFIG = { cniVersion: "1.0.0", name: "blue", plugins: [{ type: "bridge", ipam: {} }] };
const ENTRY = {
  kind: "cniCacheV1",
  containerId: "box",
  config: Buffer.from(JSON.stringify(CONFIG)).toString("base64"),
  ifName: "net1",
  networkName: "blue",
  netns: "/run/netns/box",
  cniArgs: [
    ["IgnoreUnknown", "true"],
    ["K8S_POD_NAME", "p"],
  ],
  capabilityArgs: { mac: "02:00:00:00:00:01" },
  result: { cniVersion: "1.0.0", ips: [{ address: "10.0.0.2/24" }] },
};

async function findIn(entry: unknown): Promise<unknown> {
  const files = createFakeFiles();
  const text = typeof entry === "string" ? entry : JSON.stringify(entry);
  await files.writeAtomic("/b/results/blue-box-net1", text);
  await files.writeAtomic("/b/results/blue-box-net11", "{}");
  await files.writeAtomic("/b/results/blue-another-box-net1", "{}");
  return createResultCache(files, ["/a", "/b"]).find("box", "net1");
}

test("finds a runtime's attachment with everything that its DEL needs", async () => {
  expect(await findIn(ENTRY)).toEqual({
    config: CONFIG,
    args: ENTRY.cniArgs,
    capabilityArgs: ENTRY.capabilityArgs,
    result: ENTRY.result,
  });
});

test("lists all readable entries with their attachments until they are deleted", async () => {
  const files = createFakeFiles();
  const path = "/a/results/blue-box-net1";
  await files.writeAtomic(path, JSON.stringify(ENTRY));
  await files.writeAtomic("/b/results/broken-box-net1", "{");
  const cache = createResultCache(files, ["/a", "/b", "/missing"]);
  const all = await cache.list();
  expect(all).toMatchObject([
    { containerId: "box", interfaceName: "net1", path, attachment: { config: CONFIG } },
  ]);
  for (const one of all) await cache.forget(one);
  expect(await cache.list()).toEqual([]);
});

test("accepts an entry without arguments and result", async () => {
  const { kind, containerId, ifName, networkName, config } = ENTRY;
  expect(await findIn({ kind, containerId, ifName, networkName, config })).toStrictEqual({
    config: CONFIG,
    args: [],
    capabilityArgs: {},
  });
});

test("omits arguments that are not pairs of strings", async () => {
  const cniArgs = [["A", "1"], ["B"], ["C", 2], ["D", "3", "4"], "E5", null];
  expect(await findIn({ ...ENTRY, cniArgs })).toMatchObject({ args: [["A", "1"]] });
});

test.each([
  { name: "of another NIC", entry: { ...ENTRY, ifName: "net2" } },
  { name: "without a configuration", entry: { ...ENTRY, config: 5 } },
  { name: "of another sandbox", entry: { ...ENTRY, containerId: "other" } },
  { name: "of another kind", entry: { ...ENTRY, kind: "cniCacheV2" } },
  { name: "with an invalid configuration", entry: { ...ENTRY, config: "????" } },
  { name: "that is truncated", entry: '{"kind":"cniCacheV1"' },
  { name: "that is empty", entry: "" },
])("ignores an entry $name", async ({ entry }) => {
  expect(await findIn(entry)).toBeUndefined();
});
