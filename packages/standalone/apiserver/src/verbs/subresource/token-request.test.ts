// SPDX-License-Identifier: Apache-2.0
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import { aPod } from "../../testing/objects.ts";
import { type Answer, type TestServer, startTestServer } from "../../testing/test-server.ts";

const ISSUER = "https://kubernetes.default.svc.cluster.local";

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
  await server.clock.advance(1_000_000);
  await server.put("pods", aPod("p"));
  await server.put("pods", aPod("foreign", { spec: { serviceAccountName: "robot" } }));
  await server.put("secrets", {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "s", namespace: "default", uid: "uid-s" },
  });
});

beforeEach(() => {
  server.webhooks.recorded.length = 0;
  server.webhooks.change = undefined;
});

afterAll(async () => {
  await server.close();
});

function request(spec: Fields, account = "default"): Promise<Answer> {
  const path = `/api/v1/namespaces/default/serviceaccounts/${account}/token`;
  return server.send("POST", path, { body: { spec } });
}

/** What the token of an answer says. */
function claimsOf({ body }: Answer): Fields {
  const { token } = body["status"] as { token: string };
  const [, payload = ""] = token.split(".");
  return JSON.parse(Buffer.from(payload, "base64url").toString()) as Fields;
}

const YEAR = 365 * 24 * 3600;

describe("a token", () => {
  test("lasts an hour and is for this server by default", async () => {
    const answer = await request({});
    expect([answer.code, answer.body]).toEqual([
      201,
      {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenRequest",
        metadata: {
          name: "default",
          namespace: "default",
          creationTimestamp: "1970-01-01T00:16:40Z",
        },
        spec: { audiences: [ISSUER], expirationSeconds: 3600, boundObjectRef: null },
        status: {
          token: expect.any(String) as string,
          expirationTimestamp: "1970-01-01T01:16:40Z",
        },
      },
    ]);
    expect(claimsOf(answer)).toMatchObject({
      aud: [ISSUER],
      iat: 1000,
      exp: 4600,
      sub: "system:serviceaccount:default:default",
    });
  });

  test.each([
    { name: "a requested lifetime", spec: { expirationSeconds: 601 }, want: { exp: 1601 } },
    { name: "the shortest time", spec: { expirationSeconds: 600 }, want: { exp: 1600 } },
    { name: "the longest time", spec: { expirationSeconds: YEAR }, want: { exp: 1000 + YEAR } },
    { name: "requested audiences", spec: { audiences: ["a", "b"] }, want: { aud: ["a", "b"] } },
    {
      name: "a pod",
      spec: { boundObjectRef: { kind: "Pod", apiVersion: "v1", name: "p", uid: "uid-p" } },
      want: { "kubernetes.io": { pod: { name: "p", uid: "uid-p" } } },
    },
    {
      name: "a pod, without its uid",
      spec: { boundObjectRef: { kind: "Pod", apiVersion: "v1", name: "p" } },
      want: { "kubernetes.io": { pod: { name: "p", uid: "uid-p" } } },
    },
    {
      name: "a secret",
      spec: { boundObjectRef: { kind: "Secret", apiVersion: "v1", name: "s", uid: "uid-s" } },
      want: { "kubernetes.io": { secret: { name: "s", uid: "uid-s" } } },
    },
  ])("with $name", async ({ spec, want }) => {
    const answer = await request(spec);
    expect([answer.code, claimsOf(answer)]).toMatchObject([201, want]);
    expect(answer.body["spec"]).toMatchObject(spec);
  });
});

test.each([YEAR + 1, 2 ** 32])("%d seconds are shortened to a year", async (requested) => {
  const answer = await request({ expirationSeconds: requested });
  expect([answer.code, claimsOf(answer)]).toMatchObject([201, { exp: 1000 + YEAR }]);
  expect(answer.body["spec"]).toMatchObject({ expirationSeconds: YEAR });
});

describe("rejections", () => {
  const pod = { kind: "Pod", apiVersion: "v1", name: "p" };

  test.each([
    {
      name: "an unknown account",
      spec: {},
      account: "none",
      code: 404,
      message: 'serviceaccounts "none" not found',
    },
    {
      name: "a lifetime below ten minutes",
      spec: { expirationSeconds: 599 },
      code: 422,
      message:
        'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes',
    },
    {
      name: "a lifetime above the maximum",
      spec: { expirationSeconds: 2 ** 32 + 1 },
      code: 422,
      message: `TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: ${String(2 ** 32 + 1)}: may not specify a duration larger than 2^32 seconds`,
    },
    {
      name: "an object of another kind",
      spec: { boundObjectRef: { ...pod, kind: "Node" } },
      code: 400,
      message: "cannot bind token to object of type /v1, Kind=Node",
    },
    {
      name: "an object of another group",
      spec: { boundObjectRef: { ...pod, apiVersion: "apps/v1" } },
      code: 400,
      message: "cannot bind token to object of type apps/v1, Kind=Pod",
    },
    {
      name: "an unknown pod",
      spec: { boundObjectRef: { ...pod, name: "none" } },
      code: 404,
      message: 'pods "none" not found',
    },
    {
      name: "an unknown secret",
      spec: { boundObjectRef: { ...pod, kind: "Secret", name: "none" } },
      code: 404,
      message: 'secrets "none" not found',
    },
    {
      name: "a pod of another account",
      spec: { boundObjectRef: { ...pod, name: "foreign" } },
      code: 400,
      message:
        'cannot bind token for serviceaccount "default" to pod running with different serviceaccount name.',
    },
    {
      name: "another uid",
      spec: { boundObjectRef: { ...pod, uid: "x" } },
      code: 409,
      message:
        'Operation cannot be fulfilled on Pod "p": the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated',
    },
  ])("$name: $code", async ({ spec, account, code, message }) => {
    const answer = await request(spec, account);
    expect([answer.code, answer.body.message]).toEqual([code, message]);
  });

  test("name the object and the cause", async () => {
    const uid = await request({ boundObjectRef: { ...pod, uid: "x" } });
    expect(uid.body.details).toEqual({ name: "p", kind: "Pod" });
    const seconds = await request({ expirationSeconds: 1 });
    expect(seconds.body.details.causes).toMatchObject([
      { field: "spec.expirationSeconds", reason: "FieldValueInvalid" },
    ]);
  });
});

test("admission receives the request and may change it", async () => {
  server.webhooks.change = (object) => {
    object["spec"] = { expirationSeconds: 700 };
  };
  const answer = await request({ expirationSeconds: 900 });
  expect(claimsOf(answer)).toMatchObject({ exp: 1700 });
  expect(server.webhooks.recorded).toMatchObject([
    {
      phase: "mutate",
      request: {
        bodyKind: { group: "authentication.k8s.io", version: "v1", kind: "TokenRequest" },
        subresource: "token",
        operation: "CREATE",
        name: "default",
        object: { metadata: { name: "default" }, spec: { expirationSeconds: 900 } },
      },
    },
    { phase: "validate", request: { object: { spec: { expirationSeconds: 700 } } } },
  ]);
});
