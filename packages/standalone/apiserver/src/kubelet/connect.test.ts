// SPDX-License-Identifier: Apache-2.0
// Logs of pods and programs in them, requested from the kubelet of the pod's node.
import { once } from "node:events";
import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import type { Duplex } from "node:stream";
import { createFakeClock } from "@patchbay/os/testing";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { AppDeps } from "../http/app.ts";
import { LIMITS, UserQuotas } from "../limits/limits.ts";
import {
  MemoryConnections,
  type ReceivedAnswer,
  type SentRequest,
  makeBackendServer,
  upgradeInMemory,
} from "../testing/memory-network.ts";
import { aPod } from "../testing/objects.ts";
import { type TestApp, json, startTestApp } from "../testing/test-app.ts";
import { type TestServer, runTurns, startTestServer, until } from "../testing/test-server.ts";
import { isPodStream, findKubelet } from "./connect.ts";

const KUBELET = "10.0.0.9:10250";
const PODS = "/api/v1/namespaces/default/pods";
const LOG = `${PODS}/p1/log`;
const EXEC = `${PODS}/p1/exec?command=ls&stdout=true`;
const AUTHORIZED = { authorization: "Bearer t-admin" };
const SWITCHED =
  "HTTP/1.1 101 Changed\r\nConnection: Upgrade\r\nUpgrade: x\r\nX-Two: a\r\nX-Two: b\r\n\r\n";

let app: TestApp;
let stop: AbortController;
let opened: string[];

async function start(connections: MemoryConnections, change: Partial<AppDeps> = {}): Promise<void> {
  await app.server.close();
  app = await startTestApp({
    kubelets: { connections: connections.asConnections, caPem: "CA" },
    stop: stop.signal,
    ...change,
  });
  const { logger } = app.server.deps;
  Object.assign(logger, {
    info: (message: string, fields: object) => {
      if (message === "stream opened") opened.push(JSON.stringify(fields));
    },
  });
  await app.server.put("nodes", {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "n1", uid: "uid-n1" },
    status: { addresses: [{ type: "InternalIP", address: "10.0.0.9" }] },
  });
  await app.server.put(
    "pods",
    aPod("two", { spec: { containers: [{ name: "a" }, { name: "b" }] } }),
    aPod("unbound", { spec: { nodeName: "" } }),
    aPod("lost", { spec: { nodeName: "n9" } }),
  );
}

beforeEach(async () => {
  stop = new AbortController();
  opened = [];
  app = await startTestApp();
});

afterEach(async () => {
  stop.abort();
  await app.server.close();
});

function message(answer: ReceivedAnswer): readonly [number, unknown] {
  return [answer.code, json(answer.text)["message"]];
}

/** Starts a kubelet that answers requests with `answer`. */
async function startKubelet(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const { server, received } = makeBackendServer(answer);
  const connections = new MemoryConnections({ [KUBELET]: server });
  await start(connections);
  return { connections, received };
}

describe("pod logs", () => {
  test("are requested from the kubelet and forwarded unchanged", async () => {
    const { connections, received } = await startKubelet((_request, response) => {
      response.writeHead(200, { "content-type": "text/plain" });
      response.write("one\n");
      response.end("two\n");
    });
    const answer = await app.send(`${LOG}?tailLines=5&follow=true`);
    expect([answer.code, answer.text, answer.headers["content-type"]]).toEqual([
      200,
      "one\ntwo\n",
      "text/plain",
    ]);
    const [first] = received;
    expect([first?.request.method, first?.request.url]).toEqual([
      "GET",
      "/containerLogs/default/p1/c?follow=true&tailLines=5",
    ]);
    expect(first?.request.headers.host).toBe(KUBELET);
    expect(first?.request.headers.authorization).toBeUndefined();
    const at = { host: "10.0.0.9", port: 10250 };
    expect(connections.attempts).toEqual([
      { at, peer: { addresses: [at], serverName: "n1", caPem: "CA" } },
    ]);
    expect(opened).toEqual(['{"user":"admin","resource":"pods/log","object":"default/p1"}']);
  });

  test("without parameters are requested without a query", async () => {
    const { received } = await startKubelet((_request, response) => response.end("x"));
    const { text } = await app.send(`${PODS}/two/log?container=b`);
    expect([text, received[0]?.request.url]).toEqual(["x", "/containerLogs/default/two/b"]);
  });

  test.each([
    { code: 400, text: "bad option\n", want: [400, "bad option"] },
    { code: 500, text: "broken \n", want: [500, "Internal error occurred: broken"] },
    {
      code: 404,
      text: "no file\n",
      want: [404, "the server could not find the requested resource ( pods/log p1)"],
    },
    {
      code: 207,
      text: "",
      want: [
        207,
        "the server responded with the status code 207 but did not return more information ( pods/log p1)",
      ],
    },
    {
      code: 503,
      text: "busy\n",
      want: [
        503,
        "the server responded with the status code 503 but did not return more information ( pods/log p1)",
      ],
    },
  ])("fail with $code if the kubelet refuses with that code", async ({ code, text, want }) => {
    await startKubelet((_request, response) => response.writeHead(code).end(text));
    expect(message(await app.send(LOG))).toEqual(want);
  });

  test("that do not exist cause an error with the kubelet's response", async () => {
    await startKubelet((_request, response) => response.writeHead(404).end("no file \n"));
    const found = json((await app.send(LOG)).text);
    expect(found).toMatchObject({
      reason: "NotFound",
      details: {
        name: "p1",
        kind: "pods/log",
        causes: [{ reason: "UnexpectedServerResponse", message: "no file" }],
      },
    });
    await startKubelet((_request, response) => response.writeHead(503).end());
    expect(json((await app.send(LOG)).text)["reason"]).not.toBe("NotFound");
  });

  test("with partial content are forwarded", async () => {
    await startKubelet((_request, response) => response.writeHead(206).end("part"));
    const { code, text } = await app.send(LOG);
    expect([code, text]).toEqual([206, "part"]);
  });

  test("with a long error body fail with the beginning of the body", async () => {
    await startKubelet((_request, response) => {
      response.writeHead(400);
      // The second piece has the limit in it; what comes behind it is not read.
      response.write("a".repeat(49_999));
      response.write("bcd");
    });
    const [code, text] = message(await app.send(LOG));
    expect([code, text]).toEqual([400, `${"a".repeat(49_999)}b`]);
  });

  test.each([
    { pod: "none", query: "", want: [404, 'pods "none" not found'] },
    { pod: "lost", query: "", want: [404, 'nodes "n9" not found'] },
    {
      pod: "two",
      query: "",
      want: [400, "a container name must be specified for pod two, choose one of: [a b]"],
    },
    { pod: "two", query: "?container=x", want: [400, "container x is not valid for pod two"] },
    {
      pod: "p1",
      query: "",
      want: [
        500,
        `Get "https://${KUBELET}/containerLogs/default/p1/c": dial tcp ${KUBELET}: connect: connection refused`,
      ],
    },
  ])("of $pod$query are rejected", async ({ pod, query, want }) => {
    await start(new MemoryConnections({}));
    expect(message(await app.send(`${PODS}/${pod}/log${query}`))).toEqual(want);
  });

  test("of a pod without a node are empty", async () => {
    await start(new MemoryConnections({}));
    const { code, text } = await app.send(`${PODS}/unbound/log`);
    expect([code, text]).toEqual([204, ""]);
  });

  test("fail with a server error if the connection breaks before the response", async () => {
    await startKubelet((_request, response) => response.destroy());
    expect(message(await app.send(LOG))).toEqual([500, "EOF"]);
  });

  test("are cut off if the connection breaks later", async () => {
    await startKubelet((_request, response) => {
      response.write("one");
      setImmediate(() => response.destroy());
    });
    await expect(app.send(LOG)).rejects.toMatchObject({ code: "ECONNRESET" });
  });

  test("count as a watch of the user until they end", async () => {
    const waiting: ServerResponse[] = [];
    const { server } = makeBackendServer((_request, response) => {
      response.write("x");
      waiting.push(response);
    });
    const connections = new MemoryConnections({ [KUBELET]: server });
    const limits = { ...LIMITS, watches: { max: 1, share: 1 } };
    const stop = new AbortController().signal;
    const quotas = new UserQuotas(limits, { clock: createFakeClock(), stop });
    await start(connections, { quotas });
    const first = app.send(LOG);
    await until("the log is open", () => waiting.length > 0);
    expect(message(await app.send(LOG))).toEqual([429, "this user has too many watches"]);
    waiting[0]?.end();
    expect((await first).text).toBe("x");
    await runTurns();
    const second = app.send(LOG);
    await until("the log is open again", () => waiting.length > 1);
    waiting[1]?.end();
    expect((await second).code).toBe(200);
  });
});

/** Starts a kubelet that hands upgrades to `serve`. */
async function startUpgrading(
  serve: (socket: Duplex, request: IncomingMessage, head: Buffer) => void,
): Promise<MemoryConnections> {
  const server = createServer();
  server.on("upgrade", (request, socket, head) => {
    serve(socket, request, head);
  });
  const connections = new MemoryConnections({ [KUBELET]: server });
  await start(connections);
  return connections;
}

async function open(path = EXEC, sent: SentRequest = {}) {
  const given = await upgradeInMemory(app.http, path, {
    ...sent,
    headers: { ...AUTHORIZED, ...sent.headers },
  });
  if (!("socket" in given)) throw new Error(given.refused.text);
  return given;
}

async function refusal(path: string) {
  const given = await upgradeInMemory(app.http, path, { headers: AUTHORIZED });
  if ("socket" in given) throw new Error("not refused");
  return message(given.refused);
}

async function firstPiece(socket: Duplex): Promise<string> {
  const [piece] = (await once(socket, "data")) as [Buffer];
  return piece.toString();
}

describe("exec and attach", () => {
  test("connect to the kubelet and forward both directions until one side ends", async () => {
    const requests: IncomingMessage[] = [];
    const sockets: Duplex[] = [];
    await startUpgrading((socket, request) => {
      requests.push(request);
      sockets.push(socket);
      socket.write(`${SWITCHED}hi`);
    });
    const { answer, socket } = await open(EXEC, { method: "POST", headers: { "x-mine": "1" } });
    expect([answer.statusCode, answer.statusMessage]).toEqual([101, "Changed"]);
    expect(answer.rawHeaders).toEqual([
      "Connection",
      "Upgrade",
      "Upgrade",
      "x",
      "X-Two",
      "a",
      "X-Two",
      "b",
    ]);
    expect(await firstPiece(socket)).toBe("hi");
    const [request] = requests;
    expect([request?.method, request?.url]).toEqual([
      "POST",
      "/exec/default/p1/c?command=ls&output=1",
    ]);
    expect(request?.headers).toMatchObject({
      connection: "Upgrade",
      upgrade: "SPDY/3.1",
      "x-mine": "1",
    });
    expect(request?.headers.authorization).toBeUndefined();
    const [kubelet] = sockets;
    if (kubelet === undefined) throw new Error("no connection");
    const arrived = firstPiece(kubelet);
    socket.write("ls\n");
    expect(await arrived).toBe("ls\n");
    const ended = once(socket, "close");
    kubelet.end("bye");
    expect(await firstPiece(socket)).toBe("bye");
    socket.resume();
    await ended;
    expect(opened).toEqual(['{"user":"admin","resource":"pods/exec","object":"default/p1"}']);
  });

  test("use a separate path for attach", async () => {
    const urls: unknown[] = [];
    await startUpgrading((socket, { url }) => {
      urls.push(url);
      socket.write(SWITCHED);
    });
    const { socket } = await open(`${PODS}/p1/attach?stdin=true`);
    expect(urls).toEqual(["/attach/default/p1/c?input=1"]);
    socket.destroy();
  });

  test("end at the kubelet when the client disconnects", async () => {
    const sockets: Duplex[] = [];
    const connections = await startUpgrading((socket) => {
      sockets.push(socket);
      socket.write(SWITCHED);
    });
    const { socket } = await open();
    socket.destroy();
    await until("the kubelet's end is closed", () => sockets[0]?.destroyed === true);
    expect(connections.sockets[0]?.destroyed).toBe(true);
  });

  test("end on both sides when the server stops", async () => {
    const sockets: Duplex[] = [];
    await startUpgrading((socket) => {
      sockets.push(socket);
      socket.write(SWITCHED);
    });
    const { socket } = await open();
    stop.abort();
    await until("the client's end is closed", () => socket.destroyed);
    expect(sockets[0]?.destroyed).toBe(true);
  });

  test("return the kubelet's rejection", async () => {
    await startUpgrading((socket) => {
      socket.end("HTTP/1.1 500 Refused\r\ncontent-length: 4\r\n\r\nnone");
    });
    const given = await upgradeInMemory(app.http, EXEC, { headers: AUTHORIZED });
    expect(given).toMatchObject({ refused: { code: 500, text: "none" } });
  });

  test("fail with a server error if the connection breaks", async () => {
    await startUpgrading((socket) => {
      socket.destroy();
    });
    expect(await refusal(EXEC)).toEqual([500, "error dialing backend: socket hang up"]);
  });

  test.each([
    { path: `${PODS}/none/exec`, want: [404, 'pods "none" not found'] },
    { path: `${PODS}/unbound/exec`, want: [400, "pod unbound does not have a host assigned"] },
    { path: `${PODS}/two/exec?container=x`, want: [400, "container x is not valid for pod two"] },
    {
      path: EXEC,
      want: [500, `error dialing backend: dial tcp ${KUBELET}: connect: connection refused`],
    },
  ])("to $path are rejected", async ({ path, want }) => {
    await start(new MemoryConnections({}));
    expect(await refusal(path)).toEqual(want);
  });

  test("are rejected without an upgrade request", async () => {
    const connections = await startUpgrading(() => undefined);
    expect(message(await app.send(EXEC))).toEqual([400, "Upgrade request required"]);
    expect([connections.attempts, opened]).toEqual([[], []]);
  });

  test.each([
    { verb: "exec", kind: "PodExecOptions" },
    { verb: "attach", kind: "PodAttachOptions" },
  ])("send $verb to admission as CONNECT", async ({ verb, kind }) => {
    await start(new MemoryConnections({}));
    await refusal(`${PODS}/p1/${verb}?command=ls&tty=true`);
    expect(app.server.webhooks.recorded.map(({ request }) => request)).toMatchObject(
      Array.from({ length: 2 }, () => ({
        bodyKind: { group: "", version: "v1", kind },
        operation: "CONNECT",
        subresource: verb,
        options: null,
        object: { kind, command: ["ls"], tty: true },
      })),
    );
  });
});

test.each([
  { url: `${PODS}/p1/exec?command=ls`, want: true },
  { url: `${PODS}/p1/attach`, want: true },
  { url: `${PODS}/p1/log`, want: false },
  { url: `${PODS}/p1`, want: false },
  { url: "/api/v1/namespaces/default/services/p1/exec", want: false },
  { url: "/apis/far.io/v1/namespaces/default/pods/p1/exec", want: false },
  { url: "/healthz", want: false },
])("$url is a pod stream: $want", ({ url, want }) => {
  expect(isPodStream(url)).toBe(want);
});

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
});

afterAll(async () => {
  await server.close();
});

const EXTERNAL = { type: "ExternalIP", address: "203.0.113.9" };
const HOSTNAME = { type: "Hostname", address: "n1.example" };
const INTERNAL = { type: "InternalIP", address: "10.0.0.9" };
const SECOND = { type: "InternalIP", address: "fd00::9" };
const DNS = { type: "InternalDNS", address: "n1.internal" };

function daemonEndpoints(port: unknown) {
  return { kubeletEndpoint: { Port: port } };
}

async function find(status: unknown) {
  await server.put("nodes", {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "n1", uid: "u" },
    status,
  });
  return findKubelet(server.deps.store, "n1", "CA");
}

test.each([
  {
    name: "the internal address is preferred, the first one of several",
    status: { addresses: [HOSTNAME, EXTERNAL, INTERNAL, SECOND] },
    want: { host: "10.0.0.9", port: 10250 },
  },
  {
    name: "the external address is the second choice",
    status: { addresses: [HOSTNAME, EXTERNAL] },
    want: { host: "203.0.113.9", port: 10250 },
  },
  {
    name: "the name is the last choice",
    status: { addresses: [DNS, HOSTNAME] },
    want: { host: "n1.example", port: 10250 },
  },
  {
    name: "the node names the port",
    status: { addresses: [INTERNAL], daemonEndpoints: daemonEndpoints(1) },
    want: { host: "10.0.0.9", port: 1 },
  },
  {
    name: "port 0 is the default",
    status: { addresses: [INTERNAL], daemonEndpoints: daemonEndpoints(0) },
    want: { host: "10.0.0.9", port: 10250 },
  },
])("$name", async ({ status, want }) => {
  expect(await find(status)).toEqual({ addresses: [want], serverName: "n1", caPem: "CA" });
});

test("a node without a usable address causes a server error", async () => {
  await expect(find({ addresses: [DNS] })).rejects.toMatchObject({
    code: 500,
    message:
      "no preferred addresses found; known addresses: []: node n1 reports no address in its status, so its pods cannot be reached; check that its kubelet runs",
  });
});

test("returns 404 for an unknown node", () => {
  expect(() => findKubelet(server.deps.store, "none", "CA")).toThrow('nodes "none" not found');
});
