// SPDX-License-Identifier: Apache-2.0
// This version reads the files of the last release, and writes rows that the last release reads.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createJournal } from "@patchbay/cni";
import { createFakeFiles } from "@patchbay/os/testing";
import { createAddressStore } from "@patchbay/virt-handler/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { parse } from "yaml";
import { restoreStore } from "../../packages/standalone/apiserver/src/storage/backup.ts";
import { openStore } from "../../packages/standalone/apiserver/src/storage/sqlite-store.ts";
import type { Store } from "../../packages/standalone/apiserver/src/storage/store.ts";
import { buildPaths } from "../../packages/standalone/supervisor/src/data-dir/paths.ts";
import { readSettings } from "../../packages/standalone/supervisor/src/settings/settings.ts";
import { createStoreFile, FULL_ADDRESSES, FULL_ROW, POD_UID, recordDisk } from "./disk.ts";
import { lastVersion, readRecorded } from "./recorded.ts";
import { leavesOf } from "./states.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "versions-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true });
});

function read(path: string): string {
  return readRecorded(lastVersion(), path);
}

function open(path: string): Store {
  return openStore(path, (error) => {
    throw error;
  });
}

function textsIn(store: Store): readonly string[] {
  return store.list({ bucket: "/configmaps" }).map(({ text }) => text);
}

/** The objects of the recorded backup. */
function objectsInBackup(): readonly unknown[] {
  const lines = read("backup.jsonl").trimEnd().split("\n").slice(1, -1);
  return lines.map((line) => (JSON.parse(line) as { readonly object: unknown }).object);
}

test("the API server opens the store, and continues its revisions", async () => {
  const path = join(directory, "store.sqlite");
  createStoreFile(path, read("store.sql"));
  const store = open(path);
  expect(textsIn(store).map((text) => JSON.parse(text) as unknown)).toEqual(objectsInBackup());
  const [, two] = store.list({ bucket: "/configmaps" });
  expect(two).toMatchObject({ uid: "uid-two", owners: ["uid-one"], isDeleting: true });
  const changes = store.changesAfter({ bucket: "/configmaps" }, 1, 100) ?? [];
  expect(changes.map(({ type }) => type)).toEqual(["ADDED", "ADDED", "ADDED", "DELETED"]);
  const revision = store.revision();
  const next = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "next" } };
  await store.write((transaction) =>
    transaction.put({ bucket: "/configmaps", namespace: "blue", name: "next" }, next),
  );
  expect(store.revision()).toBe(revision + 1);
  await store.close();
});

test("a backup is restored", async () => {
  const path = join(directory, "store.sqlite");
  const restored = restoreStore(path, { path: "backup", text: read("backup.jsonl") });
  expect(restored.objects).toBe(objectsInBackup().length);
  const store = open(path);
  expect(textsIn(store).map((text) => JSON.parse(text) as unknown)).toEqual(objectsInBackup());
  await store.close();
});

test("the agents read their journals", async () => {
  const files = createFakeFiles();
  const texts = parse(read("journals.yaml")) as Readonly<Record<string, string>>; // as recorded
  for (const [path, text] of Object.entries(texts)) await files.writeAtomic(path, text);
  expect(await createJournal(files, "/net-agent/journal").list(POD_UID)).toEqual([FULL_ROW]);
  const addresses = createAddressStore(files, "/virt-handler/addresses");
  expect(await addresses.list(POD_UID)).toEqual([FULL_ADDRESSES]);
});

test("the agents' journals keep every field of the last release, for a downgrade", async () => {
  const old = parse(read("journals.yaml")) as Readonly<Record<string, string>>; // as recorded
  const current = (await recordDisk()).get("journals.yaml") as Readonly<Record<string, string>>;
  expect(Object.keys(current)).toEqual(Object.keys(old));
  for (const [path, text] of Object.entries(old)) {
    const leaves = leavesOf(JSON.parse(current[path] ?? ""));
    for (const [leaf, value] of leavesOf(JSON.parse(text))) {
      expect(leaves.get(leaf), `${path} ${leaf}`).toEqual(value);
    }
  }
});

test("the supervisor reads its settings", async () => {
  const files = createFakeFiles();
  const paths = buildPaths("/data");
  const text = read("standalone.json");
  await files.writeAtomic(paths.settings, text);
  const { kind, ...stored } = JSON.parse(text) as Record<string, unknown>;
  expect(kind).toBe("PatchbayStandalone");
  const settings = Object.entries(stored).filter(([name]) => name !== "format");
  expect(await readSettings({ files, paths })).toEqual(Object.fromEntries(settings));
});
