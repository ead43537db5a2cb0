// SPDX-License-Identifier: Apache-2.0
// Addresses and names of kubelets.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestServer, startTestServer } from "../testing/test-server.ts";
import { kubeletOf } from "./node-peer.ts";

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
  return kubeletOf(server.deps.store, "n1", "CA");
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
  expect(await find(status)).toEqual({ at: [want], serverName: "n1", caPem: "CA" });
});

test("a node without a usable address is an error of the server", async () => {
  await expect(find({ addresses: [DNS] })).rejects.toMatchObject({
    code: 500,
    message: "no preferred addresses found; known addresses: []",
  });
});

test("an unknown node is not found", () => {
  expect(() => kubeletOf(server.deps.store, "none", "CA")).toThrow('nodes "none" not found');
});
