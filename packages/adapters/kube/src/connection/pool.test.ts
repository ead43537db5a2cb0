// SPDX-License-Identifier: Apache-2.0
import { createFakeClock, type FakeClock } from "@patchbay/os/testing";
import { Agent, ProxyAgent } from "undici";
import { beforeEach, describe, expect, test } from "vitest";
import type { Credentials, KubeConfig } from "./kubeconfig.ts";
import { ConnectionPool } from "./pool.ts";

let clock: FakeClock;
/** What the next reads give, the last one for ever. */
let answers: (Credentials | Error)[];
/** For each read, whether the server had refused the credentials. */
let reads: (boolean | undefined)[];

beforeEach(() => {
  clock = createFakeClock();
  answers = [];
  reads = [];
});

function createPool(change: Partial<KubeConfig> = {}): ConnectionPool {
  const readCredentials = (isRefused?: boolean): Promise<Credentials> => {
    reads.push(isRefused);
    const answer = (answers.length > 1 ? answers.shift() : answers[0]) ?? {};
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  };
  return new ConnectionPool(
    { server: "https://kube.test", skipTlsVerify: false, readCredentials, ...change },
    clock,
  );
}

describe("headers", () => {
  const basic = (text: string): string => `Basic ${Buffer.from(text).toString("base64")}`;
  test.each<{ name: string; credentials: Credentials; want: Record<string, string> }>([
    { name: "are empty for a client certificate", credentials: { cert: "C" }, want: {} },
    { name: "contain a token", credentials: { token: "t" }, want: { authorization: "Bearer t" } },
    {
      name: "contain a user name and a password",
      credentials: { username: "u", password: "p" },
      want: { authorization: basic("u:p") },
    },
    {
      name: "contain a user name without a password",
      credentials: { username: "u" },
      want: { authorization: basic("u:") },
    },
    {
      name: "contain the token if both are configured",
      credentials: { token: "t", username: "u", password: "p" },
      want: { authorization: "Bearer t" },
    },
  ])("$name", async ({ credentials, want }) => {
    answers = [credentials];
    expect((await createPool().transport()).headers).toStrictEqual(want);
  });

  test("contain the impersonated user", async () => {
    const { headers } = await createPool({ impersonate: "someone" }).transport();
    expect(headers).toStrictEqual({ "impersonate-user": "someone" });
  });
});

describe("credentials", () => {
  test("are read once a minute", async () => {
    const pool = createPool();
    await pool.transport();
    await clock.advance(59_999);
    await pool.transport();
    expect(reads).toEqual([false]);
    await clock.advance(1);
    await pool.transport();
    expect(reads).toEqual([false, false]);
  });

  test("are read again once, as rejected, after the server rejected them", async () => {
    const pool = createPool();
    await pool.transport();
    pool.expire();
    await pool.transport();
    await clock.advance(60_000);
    await pool.transport();
    expect(reads).toEqual([false, true, false]);
  });

  test("that cannot be read at first fail the call; the next call reads them again", async () => {
    answers = [new Error("gone"), { token: "t" }];
    const pool = createPool();
    await expect(pool.transport()).rejects.toThrow("gone");
    expect((await pool.transport()).headers).toEqual({ authorization: "Bearer t" });
  });

  test("that cannot be read later stay in use unchanged", async () => {
    answers = [{ token: "t" }, new Error("gone")];
    const pool = createPool();
    const first = await pool.transport();
    await clock.advance(60_000);
    expect(await pool.transport()).toBe(first);
  });
});

describe("connections", () => {
  test.each([
    { name: "another token", change: { token: "t2" }, isKept: true },
    { name: "another certificate", change: { cert: "C2" }, isKept: false },
    { name: "another key", change: { key: "K2" }, isKept: false },
    { name: "a different certificate authority", change: { ca: "A2" }, isKept: false },
  ])("are reused with $name: $isKept", async ({ change, isKept: isReused }) => {
    const credentials = { ca: "A", cert: "C", key: "K", token: "t" };
    answers = [credentials, { ...credentials, ...change }];
    const pool = createPool();
    const first = await pool.transport();
    await clock.advance(60_000);
    const second = await pool.transport();
    expect(first.dispatcher === second.dispatcher).toBe(isReused);
  });

  test("use a proxy if one is configured", async () => {
    const proxied = await createPool({ proxyUrl: "http://proxy.test:3128" }).transport();
    expect(proxied.dispatcher).toBeInstanceOf(ProxyAgent);
    expect((await createPool().transport()).dispatcher).toBeInstanceOf(Agent);
  });

  test("end with the pool; an unused pool can be ended too", async () => {
    const pool = createPool();
    const { dispatcher } = await pool.transport();
    await pool.destroy();
    expect(dispatcher).toMatchObject({ destroyed: true });
    await expect(createPool().destroy()).resolves.toBeUndefined();
  });
});
