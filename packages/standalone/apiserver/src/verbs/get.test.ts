// SPDX-License-Identifier: Apache-2.0
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestServer, startTestServer } from "../testing/test-server.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
  await server.send("POST", MAPS, { body: { metadata: { name: "a" }, data: { key: "1" } } });
});

afterAll(async () => {
  await server.close();
});

test("returns an object as stored", async () => {
  const { code, body } = await server.send("GET", `${MAPS}/a`);
  expect([code, body]).toEqual([200, server.stored("configmaps", "a")]);
});

test.each([
  {
    name: "an unknown name",
    path: `${MAPS}/none`,
    want: {
      code: 404,
      body: {
        reason: "NotFound",
        message: 'configmaps "none" not found',
        details: { name: "none", kind: "configmaps" },
      },
    },
  },
  {
    name: "a future revision",
    path: `${MAPS}/a?resourceVersion=999999`,
    want: {
      code: 504,
      body: { reason: "Timeout", details: { causes: [{ reason: "ResourceVersionTooLarge" }] } },
    },
  },
  {
    name: "a revision that is no number",
    path: `${MAPS}/a?resourceVersion=new`,
    want: { code: 400, body: { reason: "BadRequest" } },
  },
  { name: "an empty revision", path: `${MAPS}/a?resourceVersion=`, want: { code: 200 } },
  { name: "any revision", path: `${MAPS}/a?resourceVersion=0`, want: { code: 200 } },
])("$name", async ({ path, want }) => {
  expect(await server.send("GET", path)).toMatchObject(want);
});

test("serves a revision that the store has just reached", async () => {
  const revision = String(server.deps.store.revision());
  expect((await server.send("GET", `${MAPS}/a?resourceVersion=${revision}`)).code).toBe(200);
});
