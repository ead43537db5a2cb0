// SPDX-License-Identifier: Apache-2.0
// Is everything that was acknowledged still there after kill -9 under load, and does a watch miss or repeat nothing?
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import type { Agent } from "node:https";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makeAgent, readText, send } from "./apiserver-client.ts";
import { type Body, Watch } from "./apiserver-harness.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const ENTRY = fileURLToPath(new URL("./apiserver-child.ts", import.meta.url));
const WRITERS = 16;
const ROUNDS = 4;
/** Acknowledgements of one round before the server is killed. */
const WRITES = 150;

interface Child {
  readonly process: ChildProcessByStdio<null, Readable, null>;
  readonly url: string;
  readonly agent: Agent;
}

let directory: string;
let child: Child | undefined;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "apiserver-durability-"));
});

afterEach(async () => {
  await kill();
  await rm(directory, { recursive: true, force: true });
});

async function start(): Promise<Child> {
  const store = join(directory, "store.sqlite");
  const started = spawn(process.execPath, ["--conditions=@patchbay/source", ENTRY, store], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(createInterface(started.stdout), "line")) as [string];
  const { url, ca, cert, key } = JSON.parse(line) as Record<"url" | "ca" | "cert" | "key", string>;
  child = { process: started, url, agent: makeAgent({ ca, cert, key }) };
  return child;
}

async function kill(): Promise<void> {
  if (child !== undefined) {
    const { process: running, agent } = child;
    child = undefined;
    const exited = once(running, "exit");
    running.kill("SIGKILL");
    await exited;
    agent.destroy();
  }
}

/** Lists, or creates `body`. */
async function ask(of: Child, body?: unknown): Promise<Body> {
  const sending =
    body === undefined
      ? {}
      : {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(body),
        };
  return JSON.parse(await readText(await send(of.agent, `${of.url}${MAPS}`, sending))) as Body;
}

/** Creates objects until the server is gone; gives those that were acknowledged. */
async function writeUntilKilled(of: Child, round: number): Promise<readonly string[]> {
  const acknowledged: string[] = [];
  const enough = Promise.withResolvers<undefined>();
  const writers = Array.from({ length: WRITERS }, async (_, writer) => {
    for (let count = 0; ; count += 1) {
      const name = `r${String(round)}-w${String(writer)}-${String(count)}`;
      const { kind } = await ask(of, { metadata: { name }, data: { round: "1" } });
      expect(kind).toBe("ConfigMap");
      acknowledged.push(name);
      if (acknowledged.length >= WRITES) {
        enough.resolve(undefined);
      }
    }
  });
  const ended = Promise.allSettled(writers);
  await Promise.race([enough.promise, ended]);
  await kill();
  await ended;
  return acknowledged;
}

function openWatch(of: Child, revision: string): Watch {
  const path = `${MAPS}?watch=1&resourceVersion=${revision}`;
  return new Watch((signal) => send(of.agent, `${of.url}${path}`, { signal }));
}

test("nothing acknowledged is lost by kill -9 under load, and a watch continues without gap or double", async () => {
  const acknowledged: string[] = [];
  const told: { readonly name: string; readonly revision: number }[] = [];
  let server = await start();
  let { resourceVersion } = (await ask(server)).metadata;
  for (let round = 0; round < ROUNDS; round += 1) {
    const watch = openWatch(server, resourceVersion);
    acknowledged.push(...(await writeUntilKilled(server, round)));
    await watch[Symbol.asyncDispose]();
    for (const { object } of watch.events) {
      resourceVersion = object.metadata.resourceVersion;
      told.push({ name: object.metadata.name, revision: Number(resourceVersion) });
    }
    server = await start();
  }
  const { items, metadata } = await ask(server);
  const stored = new Set(items.map((item) => item.metadata.name));
  expect(acknowledged.filter((name) => !stored.has(name))).toEqual([]);
  expect(acknowledged.length).toBeGreaterThanOrEqual(ROUNDS * WRITES);

  const rest = openWatch(server, resourceVersion);
  for (const { object } of await rest.first(items.length - told.length)) {
    told.push({ name: object.metadata.name, revision: Number(object.metadata.resourceVersion) });
  }
  await rest[Symbol.asyncDispose]();
  expect(told.map(({ name }) => name).sort()).toEqual([...stored].sort());
  const revisions = told.map(({ revision }) => revision);
  expect(revisions).toEqual([...revisions].sort((left, right) => left - right));
  expect(Number(metadata.resourceVersion)).toBe(revisions.at(-1));
});

test("a second server on the same store is refused", async () => {
  await start();
  const second = spawn(
    process.execPath,
    ["--conditions=@patchbay/source", ENTRY, join(directory, "store.sqlite")],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  let errors = "";
  second.stderr.on("data", (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const [code] = (await once(second, "exit")) as [number];
  expect(code).toBe(1);
  expect(errors).toContain("STORE_UNUSABLE");
});
