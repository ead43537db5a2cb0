// SPDX-License-Identifier: Apache-2.0
// Consistency of a backup of a running server, and clients after a restore.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { restoreStore } from "@patchbay/apiserver";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Harness, startHarness } from "../harness.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";

let directory: string;
let storePath: string;
let api: Harness;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "apiserver-backup-"));
  storePath = join(directory, "store.sqlite");
  api = await startHarness({ storePath });
});

afterEach(async () => {
  await api.close();
  await rm(directory, { recursive: true, force: true });
});

function create(name: string) {
  return api.post(MAPS, { metadata: { name, labels: { own: "" } }, data: { name } });
}

async function restart(backup: string): Promise<void> {
  await api.close();
  try {
    restoreStore(storePath, { path: "backup", text: backup });
  } finally {
    api = await startHarness({ storePath });
  }
}

test("a restored server has the objects of the backup and revisions that no client has seen", async () => {
  for (const name of ["a", "b"]) {
    await create(name);
  }
  const own = `${MAPS}?labelSelector=own`;
  const { body: before } = await api.get(own);
  const { text: backup } = await api.get("/backup");
  const { body: lost } = await create("lost");
  await api.delete(`${MAPS}/a`);

  await restart(backup);
  const { body: after } = await api.get(own);
  expect(after.items).toEqual(before.items);
  const { body: next } = await create("next");
  expect(Number(next.metadata.resourceVersion)).toBeGreaterThan(
    Number(lost.metadata.resourceVersion),
  );
  // Clients that saw lost revisions must list again.
  const known = lost.metadata.resourceVersion;
  const watch = await api.ask("GET", `${MAPS}?watch=1&resourceVersion=${known}`);
  expect(watch.code).toBe(410);
  expect(watch.body.reason).toBe("Expired");
  await using current = await api.watch(
    `${MAPS}?watch=1&resourceVersion=${after.metadata.resourceVersion}`,
  );
  const [first] = await current.first(1);
  expect(first?.object.metadata.name).toBe("next");
});

test("list pages of an older state continue in the current one if the client requests it", async () => {
  for (const name of ["a", "b", "c"]) {
    await create(name);
  }
  const page = (token: string) =>
    api.ask("GET", `${MAPS}?labelSelector=own&limit=2&continue=${encodeURIComponent(token)}`);
  const { body: first } = await page("");
  await restart((await api.get("/backup")).text);
  await create("d");
  const { code, body: refusal } = await page(first.metadata.continue);
  expect([code, refusal.reason]).toEqual([410, "Expired"]);
  const { body: rest } = await page(refusal.metadata.continue);
  expect(rest.items.map(({ metadata }) => metadata.name)).toEqual(["c", "d"]);
});

test("a backup is consistent during concurrent writes", async () => {
  const stop = new AbortController();
  const writing = (async () => {
    for (let count = 0; !stop.signal.aborted; count += 1) {
      await create(`w-${String(count).padStart(5, "0")}`);
    }
  })();
  const backups = [];
  for (let round = 0; round < 5; round += 1) {
    backups.push((await api.get("/backup")).text);
  }
  stop.abort();
  await writing;
  for (const backup of backups) {
    const lines = backup.trimEnd().split("\n");
    const { revision } = JSON.parse(lines[0] ?? "") as { revision: number };
    const names = lines.flatMap((line) => /"name":"(w-\d+)"\},"revision"/.exec(line)?.[1] ?? []);
    const path = `${MAPS}?resourceVersionMatch=Exact&resourceVersion=${String(revision)}`;
    const { body } = await api.get(path);
    const then = body.items.map(({ metadata }) => metadata.name);
    expect(names).toEqual(then.filter((name) => name.startsWith("w-")));
  }
});

test("rejects a truncated backup and leaves the store unchanged", async () => {
  await create("kept");
  const { text } = await api.get("/backup");
  const half = text.split("\n").slice(0, -2).join("\n");
  await expect(restart(half)).rejects.toMatchObject({ code: "STORE_BACKUP_INVALID" });
  expect((await api.get(`${MAPS}/kept`)).code).toBe(200);
});

test("does not restore over a running server", async () => {
  const { text } = await api.get("/backup");
  expect(() => restoreStore(storePath, { path: "backup", text })).toThrow(
    expect.objectContaining({ code: "STORE_UNUSABLE" }),
  );
});

test("requires rights on the path to read a backup", async () => {
  const { code, text } = await api.ask("GET", "/backup", { token: "jane-token" });
  expect(code).toBe(403);
  expect(text).toContain('cannot get path \\"/backup\\"');
});
