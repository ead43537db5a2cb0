// SPDX-License-Identifier: Apache-2.0
// The vnc/screenshot subresource.
import { VIRTUAL_MACHINE_INSTANCES, type VmiStatus } from "@patchbay/api";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, expect, test } from "vitest";
import type { Screenshot, TakeScreenshot } from "../handlers/client.ts";
import type { CallHandler } from "../http/calls.ts";
import { aCall } from "../testing/call.ts";
import { depsOn } from "../testing/deps.ts";
import { aVmi } from "../testing/objects.ts";
import { screenshot } from "./screenshot.ts";

const RUNNING: VmiStatus = { phase: "Running", nodeName: "node1" };
const PNG = { png: new Uint8Array([1, 2, 3]) };

let store: FakeStore;
let taken: Parameters<TakeScreenshot>[];
let take: () => Promise<Screenshot>;
let handle: CallHandler;
let waitMs: number;

beforeEach(() => {
  store = createFakeStore();
  taken = [];
  take = () => Promise.resolve(PNG);
  waitMs = 0;
  handle = screenshot(
    depsOn(store, {
      screenshotRate: { tryProceed: () => waitMs },
      takeScreenshot: (...request) => {
        taken.push(request);
        return take();
      },
    }),
  );
});

function putRunning(name: string, namespace = "ns"): void {
  const vmi = aVmi();
  store.put(VIRTUAL_MACHINE_INSTANCES, {
    ...vmi,
    metadata: { ...vmi.metadata, namespace, name },
    status: RUNNING,
  });
}

function request(name: string, namespace = "ns", query = ""): ReturnType<CallHandler> {
  return handle(aCall({ namespace, name, query: new URLSearchParams(query) }));
}

test("responds with the picture", async () => {
  putRunning("a");
  expect(await request("a")).toEqual({
    code: 200,
    body: Buffer.from([1, 2, 3]),
    type: "image/png",
  });
  await request("a", "ns", "moveCursor=true");
  expect(taken).toEqual([
    ["node1", { namespace: "ns", name: "a" }, { movesCursor: false }],
    ["node1", { namespace: "ns", name: "a" }, { movesCursor: true }],
  ]);
});

test("forwards the node's rejection", async () => {
  putRunning("a");
  const refused = { code: 503, body: { message: "its guest has no vnc" } };
  take = () => Promise.resolve({ refused });
  expect(await request("a")).toMatchObject({ code: 503, body: refused.body });
});

test("rejects a VMI that is stopped, has no screen, or does not exist", async () => {
  expect(await request("a")).toMatchObject({ code: 404 });
  const vmi = { ...aVmi(), metadata: { ...aVmi().metadata, namespace: "ns", name: "a" } };
  store.put(VIRTUAL_MACHINE_INSTANCES, { ...vmi, status: { phase: "Scheduled" } });
  expect(await request("a")).toMatchObject({
    code: 400,
    body: { message: "VMI is not running" },
  });
  const devices = { ...vmi.spec.domain.devices, autoattachGraphicsDevice: false };
  const spec = { ...vmi.spec, domain: { ...vmi.spec.domain, devices } };
  store.put(VIRTUAL_MACHINE_INSTANCES, { ...vmi, spec, status: RUNNING });
  expect(await request("a")).toMatchObject({
    code: 400,
    body: { message: "No graphics devices are present." },
  });
  expect(taken).toEqual([]);
});

test("attack 151: takes one screenshot of a VMI, two of a namespace and four in all at a time", async () => {
  const { promise, resolve } = Promise.withResolvers<Screenshot>();
  take = () => promise;
  const all = ["t1", "t2", "t3"].flatMap((namespace) =>
    ["a", "a", "b", "c"].map((name) => {
      putRunning(name, namespace);
      return request(name, namespace);
    }),
  );
  await new Promise((done) => setImmediate(done));
  expect(taken.map(([, { namespace = "", name }]) => `${namespace}/${name}`)).toEqual([
    "t1/a",
    "t1/b",
    "t2/a",
    "t2/b",
  ]);
  resolve(PNG);
  expect((await Promise.all(all)).map(({ code }) => code)).toEqual([
    200, 429, 200, 429, 200, 429, 200, 429, 429, 429, 429, 429,
  ]);
  expect(await request("c", "t3")).toMatchObject({ code: 200 });
});

test("a failed screenshot frees its place", async () => {
  putRunning("a");
  take = () => Promise.reject(new Error("no"));
  for (let attempt = 0; attempt < 5; attempt += 1) await expect(request("a")).rejects.toThrow("no");
  take = () => Promise.resolve(PNG);
  expect(await request("a")).toMatchObject({ code: 200 });
});

test("refuses a user that takes screenshots too often", async () => {
  putRunning("a");
  waitMs = 1;
  expect(await request("a")).toMatchObject({ code: 429 });
  expect(taken).toEqual([]);
});
