// SPDX-License-Identifier: Apache-2.0
// The vnc/screenshot subresource.
import type { Duplex } from "node:stream";
import { VIRTUAL_MACHINE_INSTANCES, type VmiStatus } from "@patchbay/api";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, expect, test } from "vitest";
import type { OpenedStream, OpenHandlerStream } from "../handlers/client.ts";
import type { Answer } from "../http/calls.ts";
import { aCall } from "../testing/call.ts";
import { depsOn } from "../testing/deps.ts";
import { aVmi } from "../testing/objects.ts";
import { aScreen } from "../testing/screen.ts";
import { screenshot } from "./screenshot.ts";

const RUNNING: VmiStatus = { phase: "Running", nodeName: "node1" };

let store: FakeStore;
let sent: (Parameters<OpenHandlerStream>[2] & { readonly node: string })[];

beforeEach(() => {
  store = createFakeStore();
  sent = [];
});

function ask(opened: OpenedStream, query = ""): Promise<Answer> {
  const deps = depsOn(store, {
    openHandlerStream: (node, _key, request) => {
      sent.push({ node, ...request });
      return Promise.resolve(opened);
    },
  });
  return screenshot(deps)(aCall({ query: new URLSearchParams(query) }));
}

function opened(): { readonly stream: Duplex; readonly received: () => Promise<Buffer> } {
  store.put(VIRTUAL_MACHINE_INSTANCES, { ...aVmi(), status: RUNNING });
  return aScreen();
}

test("responds with a PNG and does not disconnect other viewers", async () => {
  const screen = opened();
  const { code, body, type } = await ask(screen);
  expect([code, type, (body as Buffer).subarray(1, 4).toString()]).toEqual([
    200,
    "image/png",
    "PNG",
  ]);
  expect(sent).toEqual([
    { node: "node1", stream: "vnc", preservesSession: true, sharesScreen: true },
  ]);
  expect(screen.stream.destroyed).toBe(true);
});

test("moves the pointer on request", async () => {
  const screen = opened();
  await ask(screen, "moveCursor=true");
  expect((await screen.received()).includes(Buffer.from([5, 0, 0, 1, 0, 1]))).toBe(true);
});

test("forwards the node's rejection", async () => {
  opened();
  const refused = { code: 503, body: { message: "its guest has no vnc" } };
  expect(await ask({ refused })).toMatchObject({ code: 503, body: refused.body });
});

test("rejects a VMI that is stopped, has no screen, or does not exist", async () => {
  const none = { refused: { code: 500, body: {} } };
  expect(await ask(none)).toMatchObject({ code: 404 });
  store.put(VIRTUAL_MACHINE_INSTANCES, { ...aVmi(), status: { phase: "Scheduled" } });
  expect(await ask(none)).toMatchObject({ code: 400, body: { message: "VMI is not running" } });
  const vmi = aVmi();
  const devices = { ...vmi.spec.domain.devices, autoattachGraphicsDevice: false };
  const spec = { ...vmi.spec, domain: { ...vmi.spec.domain, devices } };
  store.put(VIRTUAL_MACHINE_INSTANCES, { ...vmi, spec, status: RUNNING });
  expect(await ask(none)).toMatchObject({
    code: 400,
    body: { message: "No graphics devices are present." },
  });
  expect(sent).toEqual([]);
});
