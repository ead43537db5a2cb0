// SPDX-License-Identifier: Apache-2.0
// Requests that are passed on to the server of an aggregated API.
import { createServer } from "node:http";
import { describe, expect, test } from "vitest";
import type { KubeObject } from "../objects/object.ts";
import { BUCKET, apiService, putBackend } from "../testing/far-api.ts";
import { serveUpgrades } from "../backend/tunnel.ts";
import {
  MemoryConnections,
  type ConnectTarget,
  makeBackendServer,
  requestInMemory,
  upgradeInMemory,
} from "../testing/memory-network.ts";
import { startTestServer } from "../testing/test-server.ts";
import { findApiServiceByPath } from "./api-services.ts";
import { makeAggregator } from "./proxy.ts";

const USER = { name: "eve", uid: "u1", groups: ["g1", "g2"], extra: { "a/b": ["x"] } };

test.each([
  { path: "/apis/far.io/v1", want: true },
  { path: "/apis/far.io/v1/stars?watch=1", want: true },
  { path: "/apis/far.io/v1?x", want: true },
  { path: "/openapi/v3/apis/far.io/v1", want: true },
  { path: "/apis/far.io/v2", want: false },
  { path: "/apis/far.io", want: false },
  { path: "/apis/near.io/v1", want: false },
  { path: "/x/apis/far.io/v1", want: false },
])("$path is served by another server: $want", async ({ path, want }) => {
  const server = await startTestServer();
  const local = {
    ...apiService(),
    metadata: { name: "v1.near.io" },
    spec: { group: "near.io", version: "v1" },
  };
  await server.put(BUCKET, apiService(), local);
  expect(findApiServiceByPath(server.deps.store, path) !== undefined).toBe(want);
  await server.close();
});

describe("a request for an aggregated server", () => {
  async function ask(
    reached: Readonly<Record<string, ConnectTarget>>,
    path = "/apis/far.io/v1/stars?x=1",
    given: {
      readonly apiService?: KubeObject;
      readonly sent?: Parameters<typeof requestInMemory>[2];
      readonly lost?: boolean;
    } = {},
  ) {
    const server = await startTestServer();
    await server.put(BUCKET, given.apiService ?? apiService());
    if (given.lost !== true) await putBackend(server);
    const connections = new MemoryConnections(reached);
    const stop = new AbortController();
    const aggregator = makeAggregator({
      store: server.deps.store,
      connections: connections.asConnections,
      stop: stop.signal,
    });
    const front = createServer((request, response) => {
      aggregator.serve(request, response, USER).then(
        (served) => served || response.writeHead(418).end(),
        (error: unknown) => {
          response.writeHead(500).end(JSON.stringify(error));
        },
      );
    });
    const answer = await requestInMemory(front, path, given.sent);
    await server.close();
    return { answer, connections };
  }

  function echo(): ReturnType<typeof makeBackendServer> {
    return makeBackendServer((_request, response, body) => {
      response.writeHead(201, "Made", {
        "content-type": "text/x",
        connection: "x-hop",
        "x-hop": "1",
        trailer: "x-sum",
      });
      response.write(`got ${body}`);
      response.addTrailers({ "x-sum": "7" });
      response.end();
    });
  }

  test("is forwarded with its user and without credentials, and its response is returned", async () => {
    const { server, received } = echo();
    const { answer, connections } = await ask({ "10.0.0.1:8443": server }, undefined, {
      sent: {
        method: "POST",
        body: "hello",
        headers: {
          authorization: "Bearer t",
          "impersonate-user": "x",
          "x-remote-user": "forged",
          "x-remote-extra-k": "forged",
          "x-forwarded-for": "1.1.1.1",
          connection: "x-mine, close",
          "x-mine": "1",
          te: "trailers",
          "x-other": "2",
        },
      },
    });
    expect(answer).toMatchObject({ code: 201, text: "got hello", trailers: { "x-sum": "7" } });
    expect(answer.headers).toMatchObject({ "content-type": "text/x", trailer: "x-sum" });
    expect(answer.headers["x-hop"]).toBeUndefined();
    const request = received[0]?.request;
    expect([request?.method, request?.url, received[0]?.body]).toEqual([
      "POST",
      "/apis/far.io/v1/stars?x=1",
      "hello",
    ]);
    expect(request?.headers).toMatchObject({
      host: "10.0.0.1:8443",
      "x-remote-user": "eve",
      "x-remote-uid": "u1",
      "x-remote-group": "g1, g2",
      "x-remote-extra-a%2fb": "x",
      "x-forwarded-for": "1.1.1.1",
      "x-forwarded-uri": "/apis/far.io/v1/stars",
      "x-other": "2",
    });
    const gone = ["authorization", "impersonate-user", "x-remote-extra-k", "x-mine", "te"];
    expect(gone.filter((name) => request?.headers[name] !== undefined)).toEqual([]);
    expect(connections.attempts).toEqual([
      {
        peer: {
          addresses: [
            { host: "10.0.0.1", port: 8443 },
            { host: "10.0.0.2", port: 8443 },
          ],
          serverName: "far.default.svc",
          caPem: "CA",
          isInsecure: false,
        },
        at: { host: "10.0.0.1", port: 8443 },
      },
    ]);
  });

  test("uses the next address when a server refuses the connection", async () => {
    const { answer } = await ask({ "10.0.0.2:8443": echo().server });
    expect(answer.code).toBe(201);
  });

  const redirecting = makeBackendServer((_request, response) =>
    response.writeHead(302, { location: "/x" }).end(),
  ).server;
  const unmoved = makeBackendServer((_request, response) => response.writeHead(304).end()).server;
  const breaking = makeBackendServer((_request, response) => response.destroy()).server;
  const none = "dial tcp 10.0.0.2:8443: connect: connection refused";

  test.each<{
    name: string;
    reached: Record<string, ConnectTarget>;
    given?: Parameters<typeof ask>[2];
    path?: string;
    code: number;
    text: string;
  }>([
    {
      name: "no endpoint is reachable",
      reached: {},
      code: 503,
      text: `error trying to reach service: ${none}\n`,
    },
    {
      name: "its server is not available",
      reached: {},
      given: { apiService: apiService({ available: "False" }) },
      code: 503,
      text: "service unavailable\n",
    },
    {
      name: "its Service is missing",
      reached: {},
      given: { lost: true },
      code: 503,
      text: "service unavailable\n",
    },
    {
      name: "the backend responds with a redirect",
      reached: { "10.0.0.1:8443": redirecting },
      code: 502,
      text: "the backend attempted to redirect this request, which is not permitted",
    },
    {
      name: "the backend responds with 304",
      reached: { "10.0.0.1:8443": unmoved },
      code: 304,
      text: "",
    },
    {
      name: "the connection breaks",
      reached: { "10.0.0.1:8443": breaking },
      code: 503,
      text: "error trying to reach service: EOF\n",
    },
    {
      name: "the path belongs to a local group",
      reached: {},
      path: "/apis/near.io/v1",
      code: 418,
      text: "",
    },
  ])("gets an error response when $name", async ({ reached, given, path, code, text }) => {
    const { answer } = await ask(reached, path, given);
    expect([answer.code, answer.text]).toEqual([code, text]);
  });

  test("is cut off when the response breaks off", async () => {
    const partial = makeBackendServer((_request, response) => {
      response.writeHead(200, { "content-length": 10 });
      response.write("abc");
      setImmediate(() => response.destroy());
    }).server;
    await expect(ask({ "10.0.0.1:8443": partial })).rejects.toMatchObject({ code: "ECONNRESET" });
  });

  describe("a request to upgrade the protocol", () => {
    async function upgrade(reached: Readonly<Record<string, ConnectTarget>>) {
      const server = await startTestServer();
      await server.put(BUCKET, apiService());
      await putBackend(server);
      const connections = new MemoryConnections(reached);
      const stop = new AbortController();
      const aggregator = makeAggregator({
        store: server.deps.store,
        connections: connections.asConnections,
        stop: stop.signal,
      });
      const front = createServer();
      serveUpgrades(front, (request, response) => {
        void aggregator.serve(request, response, USER);
      });
      const given = await upgradeInMemory(front, "/apis/far.io/v1/stars/s/exec?x=1");
      await server.close();
      return given;
    }

    test("connects to the aggregated server", async () => {
      const urls: unknown[] = [];
      const server = createServer();
      server.on("upgrade", ({ url, headers }, socket) => {
        urls.push(url, headers["x-remote-user"]);
        socket.write("HTTP/1.1 101 Changed\r\nconnection: Upgrade\r\nupgrade: x\r\n\r\n");
      });
      const given = await upgrade({ "10.0.0.1:8443": server });
      expect(given).toMatchObject({ answer: { statusCode: 101 } });
      expect(urls).toEqual(["/apis/far.io/v1/stars/s/exec?x=1", "eve"]);
      if ("socket" in given) given.socket.destroy();
    });

    test("is refused when no address is reachable", async () => {
      expect(await upgrade({})).toMatchObject({
        refused: { code: 503, text: `error trying to reach service: ${none}\n` },
      });
    });
  });

  const silent = makeBackendServer(() => undefined).server;

  test("is refused when the server does not answer in time", async () => {
    const { answer } = await ask({ "10.0.0.1:8443": silent }, "/apis/far.io/v1/stars?timeout=1ms");
    expect(answer.code).toBe(500);
    expect(JSON.parse(answer.text)).toMatchObject({ code: 504, reason: "Timeout" });
  });

  test.each(["watch=true", "watch=", "follow=true"])("may last with %s", async (query) => {
    // The time-out of 1 ms would have passed before the answer, which takes more turns than that.
    const later = makeBackendServer((_request, response) => {
      AbortSignal.timeout(3).addEventListener("abort", () => response.end("late"));
    }).server;
    const { answer } = await ask(
      { "10.0.0.1:8443": later },
      `/apis/far.io/v1/stars?${query}&timeout=1ms`,
    );
    expect(answer.text).toBe("late");
  });
});
