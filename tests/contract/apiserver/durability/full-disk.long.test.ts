// SPDX-License-Identifier: Apache-2.0
// A full disk: writes are rejected, everything else works, and nothing is damaged.
import { execFileSync } from "node:child_process";
import {
  closeSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ChildServer } from "./child-process.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const DISK_BYTES = 20 * 1024 * 1024;
/** Approximate disk space per write. */
const VALUE = "x".repeat(200_000);

let directory: string;
let server: ChildServer | undefined;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "apiserver-disk-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${String(DISK_BYTES)}`, "tmpfs", directory]);
});

afterEach(async () => {
  await server?.kill();
  execFileSync("umount", [directory]);
  rmSync(directory, { recursive: true });
});

async function fill(of: ChildServer): Promise<{ names: string[]; code: number; message: string }> {
  const names: string[] = [];
  for (let count = 0; ; count += 1) {
    const name = `fill-${String(count)}`;
    const made = { metadata: { name }, data: { value: VALUE } };
    const { code, body } = await of.ask("POST", MAPS, made);
    if (code !== 201) {
      return { names, code, message: body.message };
    }
    names.push(name);
  }
}

async function namesOf(of: ChildServer): Promise<string[]> {
  const { body } = await of.ask("GET", MAPS);
  return body.items.map(({ metadata }) => metadata.name);
}

/** Fills the remaining space with a foreign file. */
function fillDisk(path: string): void {
  const file = openSync(path, "w");
  try {
    for (;;) writeSync(file, Buffer.alloc(4096));
  } catch {
    closeSync(file);
  }
}

test("on a full disk objects can be marked and deleted, and created again when space is free", async () => {
  server = await ChildServer.start(join(directory, "store.sqlite"));
  for (let count = 0; count < 5; count += 1) {
    const made = { metadata: { name: `map-${String(count)}`, finalizers: ["example.com/held"] } };
    expect((await server.ask("POST", MAPS, made)).code).toBe(201);
  }
  const hog = join(directory, "hog");
  fillDisk(hog);
  await fill(server);
  for (let count = 0; count < 5; count += 1) {
    const path = `${MAPS}/map-${String(count)}`;
    expect((await server.ask("DELETE", path)).code).toBe(200);
    const { body } = await server.ask("GET", path);
    const withoutFinalizers = { ...body, metadata: { ...body.metadata, finalizers: [] } };
    expect((await server.ask("PUT", path, withoutFinalizers)).code).toBe(200);
    expect((await server.ask("GET", path)).code).toBe(404);
  }
  const later = { metadata: { name: "later" } };
  const refused = await server.ask("POST", MAPS, later);
  expect(refused).toMatchObject({ code: 507, body: { reason: "InsufficientStorage" } });
  expect(refused.body.message).toContain("until space is free");
  rmSync(hog);
  expect((await server.ask("POST", MAPS, later)).code).toBe(201);
  expect(statSync(join(directory, "store.sqlite.reserve")).size).toBe(DISK_BYTES * 0.05);
});

test("a full disk rejects only writes, and the server recovers", async () => {
  const ballast = join(directory, "ballast");
  writeFileSync(ballast, Buffer.alloc(DISK_BYTES / 2));
  const store = join(directory, "store.sqlite");
  server = await ChildServer.start(store);
  const { names, code, message } = await fill(server);
  expect(code).toBe(507);
  expect(message).toContain("the disk of the API server's store is full");
  expect(names.length).toBeGreaterThan(1);

  expect(await namesOf(server)).toEqual(expect.arrayContaining(names));
  const { body: found } = await server.ask("GET", `${MAPS}/fill-0`);
  expect(found.data).toEqual({ value: VALUE });

  rmSync(ballast);
  const later = { metadata: { name: "later" }, data: { value: VALUE } };
  expect((await server.ask("POST", MAPS, later)).code).toBe(201);
  await server.kill();
  server = await ChildServer.start(store);
  expect(await namesOf(server)).toEqual(expect.arrayContaining([...names, "later"]));
});
