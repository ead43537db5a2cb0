// SPDX-License-Identifier: Apache-2.0
// The doctor subresource.
import { VIRTUAL_MACHINE_INSTANCES, type VmiStatus } from "@patchbay/api";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { beforeEach, expect, test } from "vitest";
import { aCall } from "../testing/call.ts";
import { depsOn } from "../testing/deps.ts";
import { aVmi } from "../testing/objects.ts";
import { examine } from "./guest.ts";

const RUNNING: VmiStatus = { phase: "Running", nodeName: "node1" };
const REPORT = { vmi: "ns/vm", interface: "blue", hops: [], milliseconds: 7 };

let store: FakeStore;
let sent: unknown[];
beforeEach(() => {
  store = createFakeStore();
  sent = [];
});

function put(status: VmiStatus): void {
  const vmi = aVmi();
  const devices = { interfaces: [{ name: "blue", bridge: {} }] };
  const spec = { ...vmi.spec, domain: { ...vmi.spec.domain, devices } };
  store.put(VIRTUAL_MACHINE_INSTANCES, { ...vmi, spec, status });
}

function ask(query: string, answer = { code: 200, body: REPORT as object }) {
  const deps = depsOn(store, {
    sendToHandler: (node, _key, request) => {
      sent.push([node, request]);
      return Promise.resolve({ ...answer, body: { ...answer.body } });
    },
  });
  return examine(deps)(aCall({ query: new URLSearchParams(query) }));
}

test("forwards the report of the VMI's node", async () => {
  put(RUNNING);
  expect(await ask("interface=blue")).toEqual({ code: 200, body: REPORT });
  expect(sent).toEqual([["node1", { examine: "blue" }]]);
});

test("forwards 429 from a busy node", async () => {
  put(RUNNING);
  const answer = { code: 429, body: { message: "it is being examined" } };
  expect(await ask("interface=blue", answer)).toMatchObject({
    code: 429,
    body: { reason: "TooManyRequests", message: "it is being examined" },
  });
});

test.each([
  { query: "", status: RUNNING, code: 400, message: "interface: must name an interface of the VM" },
  {
    query: "interface=red",
    status: RUNNING,
    code: 404,
    message: "interface: the VM has no interface red",
  },
  { query: "interface=blue", status: {}, code: 400, message: "VMI is not running" },
])("rejects $query with $code: $message", async ({ query, status, code, message }) => {
  put(status);
  expect(await ask(query)).toMatchObject({ code, body: { message } });
  expect(sent).toEqual([]);
});

test("responds with 404 for a missing VMI", async () => {
  expect(await ask("interface=blue")).toMatchObject({ code: 404 });
});
