// SPDX-License-Identifier: Apache-2.0
import { createFakeClock } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { aPodWith, UID } from "../testing.ts";
import type { TokenSource } from "../content/references.ts";
import {
  createPodTokens,
  computeReplacementMs,
  type PodTokens,
  type RequestToken,
  createTokenRequester,
} from "./pod-tokens.ts";
import type { KubeClient } from "@patchbay/kube";

const HOUR_MS = 3_600_000;
const POD = aPodWith([]);

test.each([
  { name: "after 80 percent of its lifetime", lifeMs: 1000, want: 5800 },
  {
    name: "after a day if its lifetime is longer",
    lifeMs: 1000 * HOUR_MS,
    want: 5000 + 24 * HOUR_MS,
  },
])("a token is replaced $name", ({ lifeMs, want }) => {
  expect(computeReplacementMs({ text: "t", expiresMs: 5000 + lifeMs }, 5000)).toBe(want);
});

describe("tokens of a pod", () => {
  let clock: ReturnType<typeof createFakeClock>;
  let log: ReturnType<typeof createFakeLogger>;
  let requests: Parameters<RequestToken>[1][];
  let refusal: Error | undefined;
  let tokens: PodTokens;
  const findToken = (change: Partial<TokenSource> = {}): Promise<string> =>
    tokens.find(POD, { path: "token", ...change });

  beforeEach(() => {
    clock = createFakeClock();
    log = createFakeLogger();
    requests = [];
    refusal = undefined;
    const request: RequestToken = (_pod, source) => {
      requests.push(source);
      if (refusal !== undefined) return Promise.reject(refusal);
      const expiresMs = clock.now() + source.expirationSeconds * 1000;
      return Promise.resolve({ text: `token ${String(requests.length)}`, expiresMs });
    };
    tokens = createPodTokens(request, { clock, log });
  });

  test("are valid for an hour and for the API server by default", async () => {
    await findToken();
    await findToken({ audience: "vault", expirationSeconds: 600 });
    expect(requests).toStrictEqual([
      { expirationSeconds: 3600 },
      { audience: "vault", expirationSeconds: 600 },
    ]);
  });

  test("are requested once for each audience and lifetime, and again when due", async () => {
    expect(await findToken()).toBe("token 1");
    expect(await findToken({ audience: "vault" })).toBe("token 2");
    await clock.advance(0.8 * HOUR_MS - 1);
    expect(await findToken()).toBe("token 1");
    expect(await findToken({ audience: "vault" })).toBe("token 2");
    await clock.advance(1);
    expect(await findToken()).toBe("token 3");
  });

  test("are due with the earliest of the pod's tokens", async () => {
    expect(tokens.dueMs(UID)).toBeUndefined();
    await findToken();
    await clock.advance(1000);
    await findToken({ expirationSeconds: 600 });
    expect(tokens.dueMs(UID)).toBe(480_000);
    await clock.advance(480_000);
    expect(tokens.dueMs(UID)).toBe(0);
    await clock.advance(1);
    expect(tokens.dueMs(UID)).toBe(0);
    expect(tokens.dueMs("another")).toBeUndefined();
  });

  test("are deleted with their pod", async () => {
    await findToken();
    tokens.forget("another");
    expect(await findToken()).toBe("token 1");
    tokens.forget(UID);
    expect(tokens.dueMs(UID)).toBeUndefined();
    expect(await findToken()).toBe("token 2");
  });

  test("remain usable until they expire, while failed requests are retried every ten seconds", async () => {
    await findToken();
    refusal = new Error("not now");
    await clock.advance(0.8 * HOUR_MS);
    expect(await findToken()).toBe("token 1");
    expect(tokens.dueMs(UID)).toBe(10_000);
    await clock.advance(9999);
    expect(await findToken()).toBe("token 1");
    expect(requests).toHaveLength(2);
    await clock.advance(1);
    expect(await findToken()).toBe("token 1");
    expect(requests).toHaveLength(3);
    expect(log.lines[0]).toMatchObject({
      level: "warn",
      message: "token not replaced",
      fields: { uid: UID, reason: "not now" },
    });
    await clock.advance(0.2 * HOUR_MS - 10_001);
    expect(await findToken()).toBe("token 1");
    await clock.advance(10_000);
    await expect(findToken()).rejects.toThrow("not now");
  });

  test("fail at the moment when the last one expires", async () => {
    await findToken();
    refusal = new Error("not now");
    await clock.advance(HOUR_MS);
    await expect(findToken()).rejects.toThrow("not now");
  });

  test("cause an error if no token was issued", async () => {
    refusal = new Error("not now");
    await expect(findToken()).rejects.toThrow("not now");
    expect([tokens.dueMs(UID), log.lines]).toEqual([undefined, []]);
  });
});

function serverThatAnswers(status: unknown) {
  const requests: unknown[] = [];
  const requestRaw: KubeClient["requestRaw"] = (request) => {
    requests.push(request);
    return Promise.resolve({ status: 201, text: JSON.stringify({ status }), warnings: [] });
  };
  return { requests, request: createTokenRequester({ requestRaw }) };
}

test("requests a token for the pod's account, bound to the pod", async () => {
  const status = { token: "t", expirationTimestamp: "2026-11-22T10:00:00Z" };
  const { requests, request } = serverThatAnswers(status);
  const token = await request(aPodWith([]), { audience: "x", expirationSeconds: 600 });
  expect(token).toEqual({ text: "t", expiresMs: Date.UTC(2026, 10, 22, 10) });
  expect(requests).toEqual([
    {
      method: "POST",
      path: "/api/v1/namespaces/ns/serviceaccounts/default/token",
      body: {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenRequest",
        spec: {
          audiences: ["x"],
          expirationSeconds: 600,
          boundObjectRef: { apiVersion: "v1", kind: "Pod", name: "a", uid: UID },
        },
      },
    },
  ]);
});

test.each([{}, { token: "t" }, { token: "t", expirationTimestamp: "soon" }])(
  "rejects a response without a token or expiry: %o",
  async (status) => {
    const { request } = serverThatAnswers(status);
    await expect(request(aPodWith([]), { expirationSeconds: 600 })).rejects.toMatchObject({
      code: "API_MALFORMED",
    });
  },
);

test.each([
  { seconds: 3600, want: 2880 },
  { seconds: 7 * 24 * 3600, want: 24 * 3600 },
])("a token of $seconds s is replaced after $want s", ({ seconds, want }) => {
  expect(computeReplacementMs({ text: "", expiresMs: 5000 + seconds * 1000 }, 5000)).toBe(
    5000 + want * 1000,
  );
});
