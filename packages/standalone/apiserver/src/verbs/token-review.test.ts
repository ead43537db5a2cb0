// SPDX-License-Identifier: Apache-2.0
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Fields } from "../objects/json.ts";
import { type TestServer, startTestServer } from "../testing/test-server.ts";

const TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews";

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
});

afterAll(async () => {
  await server.close();
});

describe("review of a token", () => {
  async function tokenFor(body: Fields): Promise<string> {
    const path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    const answer = await server.send("POST", path, { body });
    return (answer.body["status"] as { token: string }).token;
  }

  test("authenticates a service account", async () => {
    const token = await tokenFor({ spec: {} });
    const { code, body } = await server.send("POST", TOKENS, { body: { spec: { token } } });
    expect([code, body.metadata, body["status"]]).toMatchObject([
      201,
      { creationTimestamp: null },
      {
        authenticated: true,
        user: { username: "system:serviceaccount:default:default", uid: "uid-account-default" },
        audiences: ["https://kubernetes.default.svc.cluster.local"],
      },
    ]);
  });

  test.each([
    {
      name: "one of the token's audiences",
      audiences: ["b", "c"],
      want: { authenticated: true, audiences: ["b"] },
    },
    {
      name: "an audience that the token lacks",
      audiences: ["c"],
      want: { user: {}, error: expect.any(String) as string },
    },
  ])("checks $name", async ({ audiences, want }) => {
    const token = await tokenFor({ spec: { audiences: ["a", "b"] } });
    const { body } = await server.send("POST", TOKENS, { body: { spec: { token, audiences } } });
    expect(body["status"]).toMatchObject(want);
    expect((body["status"] as Fields)["authenticated"]).toBe((want as Fields)["authenticated"]);
  });

  test("returns the error of an invalid token in the status", async () => {
    const { code, body } = await server.send("POST", TOKENS, { body: { spec: { token: "x" } } });
    expect([code, body["status"]]).toEqual([
      201,
      { user: {}, error: expect.stringContaining("invalid bearer token") as string },
    ]);
  });

  test("rejects a missing token with 400", async () => {
    expect(await server.send("POST", TOKENS, { body: { spec: {} } })).toMatchObject({
      code: 400,
      body: { message: "token is required for TokenReview in authentication" },
    });
  });

  test("rethrows any other failure", async () => {
    const own = await startTestServer();
    own.deps.authentication.authenticateToken = () => Promise.reject(new Error("broken"));
    await expect(own.send("POST", TOKENS, { body: { spec: { token: "x" } } })).rejects.toThrow(
      "broken",
    );
    await own.close();
  });
});
