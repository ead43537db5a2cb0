// SPDX-License-Identifier: Apache-2.0
// Logs from the kubelet of the pod's node, authorization, and error messages.
import type { ServerResponse } from "node:http";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Harness, startHarness } from "../harness.ts";
import { makePod, registerNode, startNode } from "./node.ts";

let api: Harness;

beforeAll(async () => {
  api = await startHarness({ limits: { watches: { max: 2, share: 2 } } });
});

afterAll(async () => {
  await api.close();
});

test("requests a log from the kubelet with the server's own certificate", async () => {
  await using node = await startNode(api, { nodeName: "logging" }, (_request, response) => {
    response.writeHead(200, { "content-type": "text/plain" }).end("one\ntwo\n");
  });
  const path = await node.pod("logged", "c");
  const { code, text, headers } = await api.get(`${path}/log?tailLines=2&timestamps=true`);
  expect([code, text, headers["content-type"]]).toEqual([200, "one\ntwo\n", "text/plain"]);
  expect(node.seen).toEqual([
    "kubelet-client GET /containerLogs/default/logged/c?timestamps=true&tailLines=2",
  ]);
});

test("sends the kubelet none of the client's identity", async () => {
  let headers = {};
  await using node = await startNode(api, { nodeName: "discreet" }, (request, response) => {
    headers = request.headers;
    response.end();
  });
  const path = await node.pod("discreet", "c");
  await api.ask("GET", `${path}/log`, { headers: { "x-remote-user": "root", authorization: "x" } });
  expect(Object.keys(headers)).not.toContain("authorization");
  expect(Object.keys(headers)).not.toContain("x-remote-user");
});

test("a followed log is streamed as it is written and ends when the client disconnects", async () => {
  let kubelet: ServerResponse | undefined;
  await using node = await startNode(api, { nodeName: "following" }, (_request, response) => {
    kubelet = response;
    response.writeHead(200);
    response.write("one\n");
  });
  const path = await node.pod("followed", "c");
  const agent = new AbortController();
  const watch = await api.open(`${path}/log?follow=true`, agent.signal);
  let text = "";
  watch.on("data", (chunk: Buffer) => (text += chunk.toString()));
  watch.on("error", () => undefined);
  await eventually(() => text === "one\n", { withinMs: 5000 });
  kubelet?.write("two\n");
  await eventually(() => text === "one\ntwo\n", { withinMs: 5000 });
  agent.abort();
  await eventually(() => kubelet?.destroyed, { withinMs: 5000 });
});

test("followed logs count as watches of their user", async () => {
  await using node = await startNode(api, { nodeName: "counted" }, (_request, response) => {
    response.writeHead(200).flushHeaders();
  });
  const path = await node.pod("counted", "c");
  const stop = new AbortController();
  for (let open = 0; open < 2; open += 1) {
    (await api.open(`${path}/log?follow=true`, stop.signal)).on("error", () => undefined);
  }
  expect((await api.get(`${path}/log?follow=true`)).code).toBe(429);
  stop.abort();
});

test.each([
  { code: 400, text: "container is waiting", want: [400, "BadRequest", "container is waiting"] },
  {
    code: 404,
    text: "pod does not exist",
    want: [
      404,
      "NotFound",
      "the server could not find the requested resource ( pods/log refused-404)",
    ],
  },
  {
    code: 500,
    text: "no runtime",
    want: [500, "InternalError", "Internal error occurred: no runtime"],
  },
])("translates the kubelet's $code as Kubernetes does", async ({ code, text, want }) => {
  const name = `refused-${String(code)}`;
  await using node = await startNode(api, { nodeName: name }, (_request, response) => {
    response.writeHead(code).end(`${text}\n`);
  });
  const path = await node.pod(name, "c");
  const { code: answered, body } = await api.get(`${path}/log`);
  expect([answered, body.reason, body.message]).toEqual(want);
});

test("requires a container name when there are two, and rejects an unknown one", async () => {
  await using node = await startNode(api, { nodeName: "several" }, (_request, response) =>
    response.end(),
  );
  const path = await node.pod("several", "a", "b");
  expect((await api.get(`${path}/log`)).body.message).toBe(
    "a container name must be specified for pod several, choose one of: [a b]",
  );
  expect((await api.get(`${path}/log?container=x`)).body.message).toBe(
    "container x is not valid for pod several",
  );
  expect((await api.get(`${path}/log?container=b`)).code).toBe(200);
  expect((await api.get(`${path}/log?container=b&tailLines=-1`)).code).toBe(422);
});

test("a pod without a node has an empty log; a log on a deleted node causes an error", async () => {
  const path = await makePod(api, { name: "unbound" }, ["c"]);
  expect([(await api.get(`${path}/log`)).code]).toEqual([204]);
  const lost = await makePod(api, { name: "lost", nodeName: "gone" }, ["c"]);
  expect((await api.get(`${lost}/log`)).body.message).toBe('nodes "gone" not found');
});

test("names an unreachable kubelet with the reason", async () => {
  await registerNode(api, "away", 1);
  const path = await makePod(api, { name: "away", nodeName: "away" }, ["c"]);
  const { code, body } = await api.get(`${path}/log`);
  expect([code, body.message]).toEqual([
    500,
    'Get "https://127.0.0.1:1/containerLogs/default/away/c": dial tcp 127.0.0.1:1: connect: connection refused',
  ]);
});

test("sends no request to a server that is not the node's kubelet", async () => {
  await using node = await startNode(
    api,
    { nodeName: "robbed", dnsName: "another-node" },
    (_request, response) => response.end("from elsewhere"),
  );
  const path = await node.pod("robbed", "c");
  const { code, body } = await api.get(`${path}/log`);
  expect([code, body.message]).toEqual([500, expect.stringContaining("x509")]);
  expect(node.seen).toEqual([]);
});

test("the right to read pods does not include their logs", async () => {
  await using node = await startNode(api, { nodeName: "guarded" }, (_request, response) =>
    response.end("secret"),
  );
  const path = await node.pod("guarded", "c");
  const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
  const rules = [{ apiGroups: [""], resources: ["pods"], verbs: ["get"] }];
  await api.post(`${rbac}/roles`, { metadata: { name: "reader" }, rules });
  await api.post(`${rbac}/rolebindings`, {
    metadata: { name: "reader" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "reader" },
    subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "jane" }],
  });
  expect((await api.ask("GET", path, { token: "jane-token" })).code).toBe(200);
  const refused = await api.ask("GET", `${path}/log`, { token: "jane-token" });
  expect([refused.code, refused.body.message]).toEqual([
    403,
    expect.stringContaining('cannot get resource "pods/log"'),
  ]);
  expect(node.seen).toEqual([]);
});
