// SPDX-License-Identifier: Apache-2.0
// Subresources that virt-handler answers.
import { VIRTUAL_MACHINE_INSTANCES, type VmiStatus } from "@patchbay/api";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { AppError } from "@patchbay/base";
import { GUEST_REQUESTS, type GuestRequest } from "@patchbay/core/guest";
import { beforeEach, expect, test } from "vitest";
import { aCall } from "../testing/call.ts";
import { depsOn } from "../testing/deps.ts";
import { aVmi } from "../testing/objects.ts";
import { requestGuest } from "./guest.ts";

const AGENT = { type: "AgentConnected", status: "True" } as const;
const PAUSED = { type: "Paused", status: "True" } as const;

let store: FakeStore;
let sent: string[];

beforeEach(() => {
  store = createFakeStore();
  sent = [];
});

function put(status: VmiStatus): void {
  store.put(VIRTUAL_MACHINE_INSTANCES, { ...aVmi(), status });
}

function ask(request: GuestRequest, dryRun = false, answer: object = { code: 200, body: {} }) {
  const deps = depsOn(store, {
    sendToHandler: (node, { namespace, name }, what) => {
      sent.push(`${node} ${String(namespace)}/${name} ${JSON.stringify(what)}`);
      return Promise.resolve({ code: 200, body: {}, ...answer });
    },
  });
  return requestGuest(deps, request)(aCall({ dryRun }));
}

const RUNNING: VmiStatus = { phase: "Running", nodeName: "node1", conditions: [AGENT] };

test.each(Object.keys(GUEST_REQUESTS) as GuestRequest[])(
  "sends %s to the VMI's node",
  async (request) => {
    put(request === "unpause" ? { ...RUNNING, conditions: [PAUSED] } : RUNNING);
    expect(await ask(request)).toMatchObject({ code: 200 });
    expect(sent).toEqual([`node1 ns/vm "${request}"`]);
  },
);

test("forwards the node's response", async () => {
  put(RUNNING);
  const body = { items: [{ userName: "root" }] };
  expect(await ask("userlist", false, { body })).toEqual({ code: 200, body });
});

test.each([
  { name: "with a message", body: { message: "the guest agent does not answer" }, want: /agent/ },
  { name: "without a message", body: {}, want: /no reason/ },
])("forwards the node's rejection, $name", async ({ body, want }) => {
  put(RUNNING);
  expect(await ask("userlist", false, { code: 503, body })).toMatchObject({
    code: 503,
    body: { kind: "Status", message: expect.stringMatching(want) as string },
  });
});

test("a dry run of a change sends nothing to the node", async () => {
  put(RUNNING);
  expect(await ask("pause", true)).toMatchObject({ code: 200 });
  expect(sent).toEqual([]);
});

test("rejects a VMI in the wrong state, and responds with 404 for a missing one", async () => {
  put({ phase: "Scheduled" });
  expect(await ask("pause")).toMatchObject({ code: 409, body: { message: "VM is not running" } });
  store = createFakeStore();
  expect(await ask("pause")).toMatchObject({ code: 404 });
  expect(sent).toEqual([]);
});

test("reports a node that does not respond", async () => {
  put(RUNNING);
  const error = new AppError("API_NODE_UNREACHABLE", { node: "node1", reason: "no" });
  const deps = depsOn(store, { sendToHandler: () => Promise.reject(error) });
  await expect(requestGuest(deps, "reset")(aCall())).rejects.toBe(error);
});
