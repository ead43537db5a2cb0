// SPDX-License-Identifier: Apache-2.0
import { SECRETS } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import { createFakeContainerRuntime } from "@patchbay/cri/testing";
import { createFakeCache, createFakeStore } from "@patchbay/kube/testing";
import { createFakeClock, createFakeFiles } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { aContainer, aPod } from "../testing/pods.ts";
import { createRuns } from "../testing/runs.ts";
import { runImageGarbageCollection } from "./garbage.ts";
import { findPullCredentials } from "./credentials.ts";

const MINUTE_MS = 60_000;

function setUp(freeBytes = 1) {
  const runtime = createFakeContainerRuntime();
  const pods = createFakeCache<Pod>();
  const clock = createFakeClock();
  const log = createFakeLogger();
  const stop = new AbortController();
  const kept: string[][] = [];
  const added: string[] = [];
  const asked: string[] = [];
  const files = createFakeFiles();
  files.readSpace = (...path: readonly unknown[]) => {
    asked.push(path.join());
    return Promise.resolve({ sizeBytes: 100, freeBytes });
  };
  for (const name of ["a", "b"]) {
    const image = { id: `id-${name}`, tags: [`reg/${name}:1`], bytes: 1, username: "" };
    runtime.putImage({ ...image, digests: [`reg/${name}@sha256:0`] });
  }
  const grants = {
    retainOnly: (ids: ReadonlySet<string>) => Promise.resolve(void kept.push([...ids])),
  };
  const listAdded = () => Promise.resolve(added);
  const deps = { runtime, files, pods, clock, log, podsDir: "/pods", listAdded, grants };
  const removed = (): readonly string[] =>
    runtime.calls.filter((call) => call.startsWith("removeImage"));
  const run = () => runImageGarbageCollection(deps, stop.signal);
  return { runtime, pods, clock, log, stop, kept, added, asked, run, removed };
}

test("removes unused images and their grants every five minutes", async () => {
  const { clock, stop, kept, asked, run, removed, log } = setUp();
  const running = run();
  await clock.advance(0);
  expect(removed()).toEqual(["removeImage id-a", "removeImage id-b"]);
  expect([kept, asked]).toEqual([[[]], ["/pods"]]);
  expect(log.lines.map(({ fields }) => fields)).toContainEqual({ object: "id-a", bytes: 1 });
  await clock.advance(5 * MINUTE_MS - 1);
  expect(kept).toHaveLength(1);
  await clock.advance(1);
  expect(kept).toHaveLength(2);
  stop.abort();
  await running;
  expect(clock.dueMs).toEqual([]);
});

test("retains images that pods name, containers use, or users added", async () => {
  const { runtime, pods, clock, stop, kept, added, run, removed } = setUp();
  for (const name of ["i", "m", "n"]) {
    const image = { id: `id-${name}`, tags: [`reg/${name}:1`], bytes: 1, username: "" };
    runtime.putImage({ ...image, digests: [`reg/${name}@sha256:0`] });
  }
  await createRuns(runtime, "/logs").run();
  added.push("reg/a:1");
  const volumes = [
    { name: "e", emptyDir: {} },
    { name: "m", image: { reference: "reg/m:1" } },
  ];
  const initContainers = [aContainer({ name: "init", image: "reg/n:1" })];
  pods.put(aPod({ volumes, initContainers, containers: [aContainer({ image: "reg/i:1" })] }));
  const running = run();
  await clock.advance(0);
  expect(removed()).toEqual(["removeImage id-b"]);
  expect(kept.map((ids) => ids.toSorted())).toEqual([["id-a", "id-i", "id-m", "id-n", "image-1"]]);
  stop.abort();
  await running;
});

test("reports a failed pass and repeats it at the next interval", async () => {
  const { runtime, clock, stop, log, kept, run } = setUp(50);
  const list = runtime.listImages.bind(runtime);
  runtime.listImages = () => Promise.reject(new AppError("CRI_UNAVAILABLE", { reason: "away" }));
  const running = run();
  await clock.advance(0);
  expect(log.lines.map(({ message }) => message)).toEqual(["unused images cannot be removed"]);
  runtime.listImages = list;
  await clock.advance(5 * MINUTE_MS);
  expect(kept).toEqual([["id-a", "id-b"]]);
  stop.abort();
  await running;
});

test("a pod pulls with the secrets that it names, if they exist", async () => {
  const store = createFakeStore();
  const config = { auths: { "reg.example": { username: "me", password: "pw" } } };
  const data = { ".dockerconfigjson": btoa(JSON.stringify(config)) };
  const secret = (name: string, namespace: string) => ({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name, namespace },
    data,
  });
  store.put(SECRETS, secret("pull", "ns"));
  store.put(SECRETS, secret("foreign", "other"));
  const named = (...names: readonly string[]) =>
    aPod({ imagePullSecrets: names.map((name) => ({ name })) });
  const me = { username: "me", password: "pw" };
  expect(await findPullCredentials(store, named("no", "pull"), "reg.example/a")).toEqual([me]);
  expect(await findPullCredentials(store, named("foreign"), "reg.example/a")).toEqual([]);
  expect(await findPullCredentials(store, aPod(), "reg.example/a")).toEqual([]);
});
