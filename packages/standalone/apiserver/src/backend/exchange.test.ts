// SPDX-License-Identifier: Apache-2.0
// One request to a server behind this one.
import { describe, expect, test } from "vitest";
import {
  MemoryConnections,
  type ConnectTarget,
  makeBackendServer,
} from "../testing/memory-network.ts";
import type { Peer } from "./connections.ts";
import { exchange } from "./exchange.ts";

function peerAt(...hosts: readonly string[]): Peer {
  return {
    addresses: hosts.map((host) => ({ host, port: 443 })),
    serverName: "a.b.svc",
    caPem: "",
  };
}

const QUESTION = {
  method: "POST",
  path: "/p?q=1",
  headers: { host: "a" },
  timeoutMs: 60_000,
} as const;

function greeter() {
  return makeBackendServer((_request, response, body) => {
    response.writeHead(201, { "content-type": "text/plain" }).end(`got ${body}`);
  });
}

test("sends the whole request and reads the whole response", async () => {
  const { server, received } = greeter();
  const connections = new MemoryConnections({ "one:443": server });
  const answer = await exchange(
    peerAt("one"),
    { ...QUESTION, text: "hi" },
    connections.asConnections,
  );
  expect(answer).toEqual({ code: 201, contentType: "text/plain", text: "got hi" });
  expect(received[0]?.request).toMatchObject({ method: "POST", url: "/p?q=1" });
});

test("also reads a response without a content type", async () => {
  const { server } = makeBackendServer((_request, response) => response.writeHead(404).end());
  const connections = new MemoryConnections({ "one:443": server });
  const answer = await exchange(
    peerAt("one"),
    { ...QUESTION, method: "GET" },
    connections.asConnections,
  );
  expect(answer).toEqual({ code: 404, contentType: "", text: "" });
});

describe("a failure", () => {
  const tooLong = makeBackendServer((_request, response) => {
    response.end(Buffer.alloc(16 * 1024 * 1024 + 1));
  }).server;
  const longest = makeBackendServer((_request, response) => {
    response.end(Buffer.alloc(16 * 1024 * 1024));
  }).server;
  const breaking = makeBackendServer((_request, response) => response.destroy()).server;

  test.each<{
    name: string;
    hosts: string[];
    reached: Record<string, ConnectTarget>;
    want: string;
  }>([
    { name: "no address is known", hosts: [], reached: {}, want: "no address" },
    {
      name: "every address refuses",
      hosts: ["one", "two"],
      reached: {},
      want: "dial tcp two:443: connect: connection refused",
    },
    {
      name: "a failure other than a refusal ends the search",
      hosts: ["one", "two"],
      reached: { "one:443": "CERT_HAS_EXPIRED", "two:443": greeter().server },
      want: "tls: failed to verify certificate: x509: certificate has expired or is not yet valid",
    },
    {
      name: "the response is too long",
      hosts: ["one"],
      reached: { "one:443": tooLong },
      want: "the response is too long",
    },
    {
      name: "the connection breaks",
      hosts: ["one"],
      reached: { "one:443": breaking },
      want: "EOF",
    },
  ])("is described when $name", async ({ hosts, reached, want }) => {
    const connections = new MemoryConnections(reached);
    const asked = exchange(peerAt(...hosts), QUESTION, connections.asConnections);
    await expect(asked).rejects.toThrow(new Error(want));
  });

  test("skips an address that refuses", async () => {
    const connections = new MemoryConnections({ "two:443": greeter().server });
    const answer = await exchange(
      peerAt("one", "two"),
      { ...QUESTION, text: "x" },
      connections.asConnections,
    );
    expect(answer.text).toBe("got x");
    expect(connections.attempts.map(({ at }) => at.host)).toEqual(["one", "two"]);
  });

  test("reads a response of the maximum length", async () => {
    const connections = new MemoryConnections({ "one:443": longest });
    const { text } = await exchange(peerAt("one"), QUESTION, connections.asConnections);
    expect(text).toHaveLength(16 * 1024 * 1024);
  });

  test("aborts when a server does not answer in time", async () => {
    const silent = makeBackendServer(() => undefined).server;
    const connections = new MemoryConnections({ "one:443": silent });
    const asked = exchange(peerAt("one"), { ...QUESTION, timeoutMs: 1 }, connections.asConnections);
    await expect(asked).rejects.toThrow(new Error("context deadline exceeded"));
  });
});
