// SPDX-License-Identifier: Apache-2.0
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestServer, startTestServer } from "../testing/test-server.ts";

const SERVICES = "/api/v1/namespaces/default/services";

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
});

afterAll(async () => {
  await server.close();
});

describe("address claims of Services", () => {
  const spec = { ports: [{ port: 80 }] };

  test("each new Service gets a unique address", async () => {
    const made = await Promise.all(
      ["s1", "s2"].map((name) =>
        server.send("POST", SERVICES, { body: { metadata: { name }, spec } }),
      ),
    );
    const addresses = made.map(({ body }) => (body["spec"] as { clusterIP: string }).clusterIP);
    expect(new Set(addresses).size).toBe(2);
    expect(addresses.every((address) => address.startsWith("10.96."))).toBe(true);
    const taken = await server.send("POST", SERVICES, {
      body: { metadata: { name: "s3" }, spec: { ...spec, clusterIP: addresses[0] } },
    });
    expect(taken).toMatchObject({
      code: 422,
      body: {
        message: expect.stringContaining("provided IP is already allocated") as string,
        details: { name: "s3", kind: "Service" },
      },
    });
    expect(server.stored("services", "s3")).toBeUndefined();
  });

  test("an update retains the address of the Service", async () => {
    const { body } = await server.send("POST", SERVICES, {
      body: { metadata: { name: "s4" }, spec },
    });
    const again = await server.send("PUT", `${SERVICES}/s4`, {
      body: { ...body, metadata: { ...body.metadata, labels: { a: "b" } } },
    });
    expect([again.code, again.body["spec"]]).toEqual([200, body["spec"]]);
  });

  test("a port retains its node port when its number changes", async () => {
    const ports = [{ port: 80, nodePort: 30_080 }];
    const body = { metadata: { name: "s5" }, spec: { type: "NodePort", ports } };
    expect((await server.send("POST", SERVICES, { body })).code).toBe(201);
    const moved = { spec: { ports: [{ port: 81, nodePort: 30_080, protocol: "TCP" }] } };
    const answer = await server.send("PATCH", `${SERVICES}/s5`, { body: moved });
    expect([answer.code, answer.body["spec"]]).toMatchObject([
      200,
      { ports: [{ port: 81, nodePort: 30_080 }] },
    ]);
  });
});
