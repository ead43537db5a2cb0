// SPDX-License-Identifier: Apache-2.0
import { createFakeFiles } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { createJournal, type JournalRow } from "./journal.ts";

function row(interfaceName: string, more: Partial<JournalRow> = {}): JournalRow {
  return {
    podUid: "uid-1",
    podNamespace: "ns1",
    podName: "pod",
    network: "ns1/blue",
    request: {
      containerId: "box1",
      netnsPath: "/run/netns/box1",
      interfaceName,
      config: { cniVersion: "1.0.0", name: "blue", plugins: [{ type: "bridge", x: 1 }] },
      args: [["IgnoreUnknown", "1"]],
      capabilityArgs: {},
    },
    netnsInode: "4026",
    bootId: "boot-1",
    sequence: 1,
    state: "begun",
    ...more,
  };
}

test("reads rows as written, ordered by sequence", async () => {
  const journal = createJournal(createFakeFiles(), "/j");
  const rows = [row("z", { sequence: 1 }), row("a", { sequence: 2 })];
  for (const entry of rows) await journal.write(entry);
  expect(await journal.list("uid-1")).toEqual(rows);
  expect(await journal.listPods()).toEqual(["uid-1"]);
});

test("a row replaces the row of the same sandbox and interface, but not another sandbox's", async () => {
  const journal = createJournal(createFakeFiles(), "/j");
  const other = row("a", { request: { ...row("a").request, containerId: "box0" } });
  await journal.write(other);
  await journal.write(row("a", { sequence: 2 }));
  await journal.write(row("a", { sequence: 2, state: "attached" }));
  expect((await journal.list("uid-1")).map((entry) => entry.state)).toEqual(["begun", "attached"]);
});

test("forgets a pod after its last row is removed; removing twice succeeds", async () => {
  const files = createFakeFiles();
  const journal = createJournal(files, "/j");
  await journal.write(row("a"));
  await journal.write(row("b"));
  await journal.remove(row("a"));
  expect(await journal.listPods()).toEqual(["uid-1"]);
  await journal.remove(row("b"));
  await journal.remove(row("b"));
  expect(await journal.listPods()).toEqual([]);
  expect(await journal.list("uid-1")).toEqual([]);
  expect(await files.list("/j")).toEqual([]);
});

test("does not read a partial write as a row", async () => {
  const files = createFakeFiles();
  const journal = createJournal(files, "/j");
  await journal.write(row("a"));
  await files.writeAtomic("/j/uid-1/box1.a.json.77-1.tmp", "{");
  expect(await journal.list("uid-1")).toHaveLength(1);
});

/** The row without one of its fields, or with another value. */
function broken(key: string, value?: unknown): unknown {
  return { ...row("a"), [key]: value };
}

const { request } = row("a");

test.each([
  { name: "is empty", text: "" },
  { name: "is not an object", text: "[]" },
  ...[
    "podUid",
    "podNamespace",
    "podName",
    "network",
    "netnsInode",
    "bootId",
    "state",
    "request",
  ].map((key) => ({ name: `has no ${key}`, text: JSON.stringify(broken(key)) })),
  { name: "has an invalid sequence number", text: JSON.stringify(broken("sequence", "1")) },
  ...["containerId", "interfaceName", "config"].map((key) => ({
    name: `has a request without ${key}`,
    text: JSON.stringify(broken("request", { ...request, [key]: undefined })),
  })),
])("fails on a row that $name, because the row may record a lease", async ({ text }) => {
  const files = createFakeFiles();
  await files.writeAtomic("/j/uid-1/box1.a.json", text);
  await expect(createJournal(files, "/j").list("uid-1")).rejects.toMatchObject({
    code: "CNI_JOURNAL_BROKEN",
    details: { path: "/j/uid-1/box1.a.json" },
  });
});

test.each([
  { name: "a sandbox", request: { ...request, containerId: "../box1" } },
  { name: "a sandbox without a name", request: { ...request, containerId: "" } },
  { name: "a NIC", request: { ...request, interfaceName: "../a" } },
])("rejects $name that is a path", async ({ request: refused }) => {
  const files = createFakeFiles();
  await expect(
    createJournal(files, "/j").write(row("a", { request: refused })),
  ).rejects.toMatchObject({
    code: "OS_PATH_REFUSED",
    details: { path: refused.containerId },
  });
  expect(files.paths).toEqual([]);
});

test.each(["../x", "a/b", ""])("rejects %j as a pod UID", async (podUid) => {
  const journal = createJournal(createFakeFiles(), "/j");
  await expect(async () => journal.write(row("a", { podUid }))).rejects.toMatchObject({
    code: "OS_PATH_REFUSED",
    details: { path: podUid },
  });
});

test("deletes directories without rows", async () => {
  const files = createFakeFiles();
  await files.writeAtomic("/journal/uid-9/.c1.net1.json.1234.tmp", "half");
  const journal = createJournal(files, "/journal");
  expect(await journal.listPods()).toEqual([]);
  expect(await files.list("/journal")).toEqual([]);
});

test("reads the rows of a pod once, and again after a failed change", async () => {
  const files = createFakeFiles();
  await createJournal(files, "/j").write(row("a"));
  let reads = 0;
  let isFull = false;
  const counted = new Proxy(files, {
    get: (target, name): unknown => {
      if (name === "readText") reads += 1;
      if (name === "writeAtomic" && isFull) return () => Promise.reject(new Error("no space"));
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  const journal = createJournal(counted, "/j");
  const states = async (): Promise<readonly string[]> =>
    (await journal.list("uid-1")).map(({ state }) => state);
  expect(await states()).toEqual(["begun"]);
  await journal.write(row("a", { state: "attached" }));
  expect(await states()).toEqual(["attached"]);
  expect(reads).toBe(1);
  isFull = true;
  await expect(journal.write(row("a", { state: "removed" }))).rejects.toThrow("no space");
  expect(await states()).toEqual(["attached"]);
  expect(reads).toBe(2);
});
