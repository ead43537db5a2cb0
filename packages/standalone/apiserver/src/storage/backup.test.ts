// SPDX-License-Identifier: Apache-2.0
// tests/contract/apiserver restores backups of a running server.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { backUpStore, restoreStore } from "./backup.ts";

let directory = "";
let path = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "store-backup-"));
  path = join(directory, "store.sqlite");
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

/** A backup with a ConfigMap at each of the revisions. */
function backupOf(...revisions: readonly number[]): {
  readonly path: string;
  readonly text: string;
} {
  const lines = revisions.map((revision, index) => {
    const name = `m${String(index)}`;
    const address = { bucket: "/configmaps", namespace: "ns", name };
    const metadata = { namespace: "ns", name, uid: name };
    return { address, revision, object: { apiVersion: "v1", kind: "ConfigMap", metadata } };
  });
  const all = [{ format: "patchbay-backup/1", revision: 9 }, ...lines, { objects: lines.length }];
  return { path: "backup", text: all.map((line) => `${JSON.stringify(line)}\n`).join("") };
}

/** The store rejects two states with one revision, after it has been created. */
const FAILING = backupOf(1, 1);

function objectsIn(): number {
  return backUpStore(path).trimEnd().split("\n").length - 2;
}

test("a restore that failed creates no store, and can be repeated", () => {
  expect(() => restoreStore(path, FAILING)).toThrow(
    expect.objectContaining({ code: "STORE_WRITE_FAILED" }),
  );
  expect(readdirSync(directory)).toEqual([]);
  expect(restoreStore(path, backupOf(1, 2))).toMatchObject({ objects: 2 });
  expect(readdirSync(directory)).toEqual(["store.sqlite"]);
  expect(objectsIn()).toBe(2);
});

test.each([".restoring", ".restoring-wal", "-wal", "-shm"])(
  "what a restore without power left in the file %s does not count",
  (suffix) => {
    writeFileSync(`${path}${suffix}`, "damaged");
    restoreStore(path, backupOf(1, 2));
    expect(readdirSync(directory)).toEqual(["store.sqlite"]);
    expect(objectsIn()).toBe(2);
  },
);

test("a failed restore over a store changes nothing", () => {
  restoreStore(path, backupOf(1));
  expect(() => restoreStore(path, FAILING)).toThrow(
    expect.objectContaining({ code: "STORE_WRITE_FAILED" }),
  );
  expect(objectsIn()).toBe(1);
});
