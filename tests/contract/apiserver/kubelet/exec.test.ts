// SPDX-License-Identifier: Apache-2.0
// Exec and attach streams to the kubelet of the pod's node, with authorization.
import type { Duplex } from "node:stream";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readBytes } from "../aggregation/extension-server.ts";
import { readText } from "../client.ts";
import { type Harness, startHarness } from "../harness.ts";
import { upgrade } from "../upgrade.ts";
import { clientOf, makePod, registerNode, startNode } from "./node.ts";

const TOKENS = [
  { token: "admin-token", user: "root", groups: ["system:masters"] },
  { token: "jane-token", user: "jane", groups: ["devs"] },
];
const SPDY = {
  method: "POST",
  upgrade: "SPDY/3.1",
  "x-stream-protocol-version": "v4.channel.k8s.io",
};
const RUN = "/exec?command=sh&command=-c&command=a%20b&stdin=true&stdout=true&tty=false";

let api: Harness;

beforeAll(async () => {
  api = await startHarness({ tokens: TOKENS, limits: { watches: { max: 2, share: 2 } } });
});

afterAll(async () => {
  await api.close();
});

const refuse = (_request: unknown, response: { end: () => void }): void => {
  response.end();
};

test.each([
  { name: "spdy", method: "POST", headers: SPDY },
  { name: "websocket", method: "GET", headers: { upgrade: "websocket" } },
])("$name: streams bytes and their end both ways", async ({ name, method, headers }) => {
  let kubelet: Duplex | undefined;
  const observed: string[] = [];
  await using node = await startNode(api, { nodeName: `node-${name}` }, refuse);
  node.backend.onUpgrade((request, socket) => {
    observed.push(`${clientOf(request)} ${request.method ?? ""} ${request.url ?? ""}`);
    observed.push(request.headers.upgrade ?? "", String(request.headers.authorization));
    kubelet = socket;
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: x\r\n\r\nhi`);
  });
  const path = await node.pod(`runs-${name}`, "c");
  const { answer, socket } = await upgrade(api, `${path}${RUN}`, headers);
  expect([answer.statusCode, answer.headers.upgrade]).toEqual([101, "x"]);
  expect(socket && (await readBytes(socket, 2)).toString()).toBe("hi");
  socket?.write("ls\n");
  expect(kubelet && (await readBytes(kubelet, 3)).toString()).toBe("ls\n");
  expect(observed).toEqual([
    `kubelet-client ${method} /exec/default/runs-${name}/c?command=sh&command=-c&command=a+b&input=1&output=1`,
    headers.upgrade,
    "undefined",
  ]);
  kubelet?.end();
  socket?.resume();
  await eventually(() => socket?.closed, { withinMs: 5000 });
});

test("attach uses a separate path", async () => {
  const observed: string[] = [];
  await using node = await startNode(api, { nodeName: "attached" }, refuse);
  node.backend.onUpgrade((request, socket) => {
    observed.push(request.url ?? "");
    socket.end("HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: x\r\n\r\n");
  });
  const path = await node.pod("attached", "c");
  const { answer } = await upgrade(api, `${path}/attach?stdout=true`, SPDY);
  expect([answer.statusCode, observed]).toEqual([101, ["/attach/default/attached/c?output=1"]]);
});

test("a client that disconnects is disconnected at the kubelet and no longer counted", async () => {
  const kubelet: Duplex[] = [];
  await using node = await startNode(api, { nodeName: "left" }, refuse);
  node.backend.onUpgrade((_request, socket) => {
    kubelet.push(socket);
    socket.resume();
    socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: x\r\n\r\n");
  });
  const path = `${await node.pod("left", "c")}${RUN}`;
  const first = await upgrade(api, path, SPDY);
  await upgrade(api, path, SPDY);
  expect((await upgrade(api, path, SPDY)).answer.statusCode).toBe(429);
  first.socket?.destroy();
  await eventually(() => kubelet[0]?.closed, { withinMs: 5000 });
  await eventually(async () => (await upgrade(api, path, SPDY)).answer.statusCode === 101, {
    withinMs: 5000,
  });
  for (const socket of kubelet) {
    socket.destroy();
  }
});

test("forwards the kubelet's rejection message", async () => {
  await using node = await startNode(api, { nodeName: "refusing" }, refuse);
  node.backend.onUpgrade((_request, socket) => {
    const text = 'container not found ("c")';
    socket.end(
      `HTTP/1.1 500 Refused\r\nconnection: close\r\ncontent-length: ${String(text.length)}\r\n\r\n${text}`,
    );
  });
  const path = await node.pod("refusing", "c");
  const { answer } = await upgrade(api, `${path}${RUN}`, SPDY);
  expect([answer.statusCode, await readText(answer)]).toEqual([500, 'container not found ("c")']);
});

async function refusal(path: string, headers: Readonly<Record<string, string>>) {
  const { answer } = await upgrade(api, path, headers);
  // A Status, like every rejection of this server.
  const { message } = JSON.parse(await readText(answer)) as { message: string };
  return [answer.statusCode, message];
}

test("rejects invalid requests before they reach the kubelet", async () => {
  await registerNode(api, "dark", 1);
  const path = await makePod(api, { name: "dark", nodeName: "dark" }, ["a", "b"]);
  expect(await refusal(`${path}${RUN}`, SPDY)).toEqual([
    400,
    "a container name must be specified for pod dark, choose one of: [a b]",
  ]);
  expect(await refusal(`${path}${RUN}&container=a`, SPDY)).toEqual([
    500,
    "error dialing backend: dial tcp 127.0.0.1:1: connect: connection refused",
  ]);
  const unbound = await makePod(api, { name: "unbound" }, ["c"]);
  expect(await refusal(`${unbound}${RUN}`, SPDY)).toEqual([
    400,
    "pod unbound does not have a host assigned",
  ]);
  expect(await refusal("/api/v1/namespaces/default/pods/none/exec", SPDY)).toEqual([
    404,
    'pods "none" not found',
  ]);
  const plain = await api.post(`${path}${RUN}&container=a`, undefined);
  expect([plain.code, plain.body.message]).toEqual([400, "Upgrade request required"]);
});

test("rejects exec without the right to create pods/exec", async () => {
  await using node = await startNode(api, { nodeName: "guarded" }, refuse);
  const requested: string[] = [];
  node.backend.onUpgrade((request, socket) => {
    requested.push(request.url ?? "");
    socket.destroy();
  });
  const path = await node.pod("guarded", "c");
  const jane = { authorization: "Bearer jane-token" };
  for (const [verb, headers] of [
    ["create", { ...SPDY, ...jane }],
    ["get", jane],
  ] as const) {
    const [code, message] = await refusal(`${path}${RUN}`, headers);
    expect(code).toBe(403);
    expect(message).toContain(`cannot ${verb} resource "pods/exec"`);
  }
  expect(requested).toEqual([]);
});
