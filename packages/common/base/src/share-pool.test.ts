// SPDX-License-Identifier: Apache-2.0
import { EventEmitter } from "node:events";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  isSystemKey,
  type PoolLimits,
  RateLimiter,
  type Release,
  SHARE_KEYS,
  SharePool,
  type Shortage,
  signalClose,
  tryAcquireAll,
} from "./share-pool.ts";
import { ManualClock } from "./testing.ts";

const A = SHARE_KEYS.namespace("a");
const B = SHARE_KEYS.namespace("b");
const C = SHARE_KEYS.namespace("c");
const NODE = SHARE_KEYS.system("node");

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test("the namespaces of Kubernetes and Patchbay belong to the system", () => {
  const keys = ["kube-system", "patchbay", "default", "patchbay-1"].map(SHARE_KEYS.namespace);
  expect(keys.map(isSystemKey)).toEqual([true, true, false, false]);
});

interface ShortageCase {
  readonly name: string;
  readonly used: readonly (readonly [key: string, amount: number])[];
  readonly key: string;
  readonly amount: number;
  readonly want: Shortage | undefined;
}

test.each<ShortageCase>([
  { name: "a free pool", used: [], key: A, amount: 1, want: undefined },
  { name: "the rest of a share", used: [[A, 3]], key: A, amount: 1, want: undefined },
  { name: "more than a share", used: [[A, 3]], key: A, amount: 2, want: "share" },
  { name: "another key's share", used: [[A, 4]], key: B, amount: 2, want: undefined },
  {
    name: "the tenants' part",
    used: [
      [A, 4],
      [B, 2],
    ],
    key: C,
    amount: 1,
    want: "pool",
  },
  {
    name: "the reserve",
    used: [
      [A, 4],
      [B, 2],
    ],
    key: NODE,
    amount: 4,
    want: undefined,
  },
  { name: "the system's share", used: [], key: NODE, amount: 99, want: undefined },
  { name: "the system beyond its share", used: [[NODE, 1]], key: NODE, amount: 4, want: "share" },
  {
    name: "a full pool",
    used: [
      [A, 4],
      [NODE, 4],
      [B, 2],
    ],
    key: SHARE_KEYS.system("x"),
    amount: 1,
    want: "pool",
  },
  { name: "an amount above the share", used: [], key: A, amount: 99, want: undefined },
])("$name has shortage $want", ({ used, key, amount, want }) => {
  const pool = new SharePool({ max: 10, share: 4, reserve: 4 });
  for (const [user, part] of used) pool.spend(user, part);
  expect(pool.findShortage(key, amount)).toBe(want);
  expect(pool.tryAcquire(key, amount) === undefined).toBe(want !== undefined);
});

test("keys of different kinds differ, and only the system's may use the reserve", () => {
  const object = SHARE_KEYS.object({ namespace: "a", name: "a" });
  const keys = [A, SHARE_KEYS.user({ name: "a", groups: [] }), SHARE_KEYS.peer("a"), object, NODE];
  expect(new Set(keys).size).toBe(5);
  expect(keys.filter(isSystemKey)).toEqual([NODE]);
  expect(isSystemKey(SHARE_KEYS.user({ name: "system a", groups: [] }))).toBe(false);
  expect(SHARE_KEYS.peer(undefined)).not.toBe(SHARE_KEYS.peer("::1"));
});

test("the system's share may exceed the tenants'", () => {
  const pool = new SharePool({ max: 10, share: 1, systemShare: 8, reserve: 8 });
  expect(pool.tryAcquire(NODE, 8)).toBeDefined();
  expect([NODE, A].map((key) => pool.findShortage(key))).toEqual(["share", undefined]);
});

test("an amount spent beyond the limits takes nothing from other keys or from the reserve", () => {
  const pool = new SharePool({ max: 10, share: 4, reserve: 2 });
  pool.spend(A, 100);
  expect([A, B, NODE].map((key) => pool.findShortage(key, 4))).toEqual([
    "share",
    undefined,
    undefined,
  ]);
  pool.spend(B, 100);
  pool.spend(C, 100);
  expect([C, NODE].map((key) => pool.findShortage(key, 2))).toEqual(["share", undefined]);
  for (const key of [A, B, C]) pool.release(key, 100);
  expect([A, NODE].map((key) => pool.findShortage(key, 4))).toEqual([undefined, undefined]);
});

test("a release has an effect once", () => {
  const pool = new SharePool({ max: 2, share: 2 });
  const release = pool.tryAcquire(A);
  pool.spend(A, 1);
  release?.();
  release?.();
  expect([pool.findShortage(A), pool.findShortage(A, 2)]).toEqual([undefined, "share"]);
});

test("takes from all pools or from none", () => {
  const [wide, narrow] = [new SharePool({ max: 3, share: 3 }), new SharePool({ max: 3, share: 1 })];
  const claims = [[wide, A] as const, [narrow, B] as const];
  const release = tryAcquireAll(claims);
  expect(tryAcquireAll(claims)).toBeUndefined();
  expect([wide.findShortage(A, 2), narrow.findShortage(B)]).toEqual([undefined, "share"]);
  release?.();
  release?.();
  expect([wide.findShortage(A, 3), narrow.findShortage(B)]).toEqual([undefined, undefined]);
});

describe("waiting", () => {
  interface Waits {
    readonly order: string[];
    readonly releases: Release[];
    readonly wait: (name: string, key: string, amount?: number) => Promise<void>;
  }

  function waitsOn(pool: SharePool): Waits {
    const waits = { order: [] as string[], releases: [] as Release[] };
    const wait = async (name: string, key: string, amount = 1): Promise<void> => {
      const release = await pool.acquire(key, amount);
      waits.order.push(name);
      if (release !== undefined) waits.releases.push(release);
    };
    return { ...waits, wait };
  }

  async function releaseAll({ releases }: Waits): Promise<void> {
    for (let release = releases.shift(); release !== undefined; release = releases.shift()) {
      release();
      await nextTurn();
    }
  }

  interface WaitCase {
    readonly name: string;
    readonly limits: PoolLimits;
    readonly requests: readonly (readonly [name: string, key: string, amount?: number])[];
    readonly want: readonly string[];
  }

  test.each<WaitCase>([
    {
      name: "serves keys in turn, each in its own order",
      limits: { max: 1, share: 1 },
      requests: [
        ["a1", A],
        ["a2", A],
        ["a3", A],
        ["b1", B],
        ["b2", B],
        ["c1", C],
      ],
      want: ["a1", "b1", "c1", "a2", "b2", "a3"],
    },
    {
      name: "serves the system at least every second time",
      limits: { max: 1, share: 1 },
      requests: [
        ["a1", A],
        ["b1", B],
        ["c1", C],
        ["n1", NODE],
        ["n2", NODE],
      ],
      want: ["a1", "n1", "b1", "n2", "c1"],
    },
    {
      name: "passes over a key without a share",
      limits: { max: 3, share: 2 },
      requests: [
        ["a1", A, 2],
        ["a2", A, 2],
        ["b1", B],
      ],
      want: ["a1", "b1", "a2"],
    },
    {
      name: "does not let small amounts overtake a large one",
      limits: { max: 10, share: 8 },
      requests: [
        ["a1", A, 8],
        ["b1", B, 5],
        ["c1", C, 2],
      ],
      want: ["a1", "b1", "c1"],
    },
    {
      name: "grants more than the share when nothing is used",
      limits: { max: 10, share: 4 },
      requests: [
        ["a1", A, 1],
        ["a2", A, 100],
        ["a3", A, 1],
      ],
      want: ["a1", "a2", "a3"],
    },
  ])("$name", async ({ limits, requests, want }) => {
    const waits = waitsOn(new SharePool(limits));
    const all = requests.map(([name, key, amount]) => waits.wait(name, key, amount));
    await nextTurn();
    await releaseAll(waits);
    await Promise.all(all);
    expect(waits.order).toEqual(want);
  });

  test("runs work while it holds the amount, also if the work fails", async () => {
    const pool = new SharePool({ max: 1, share: 1 });
    const failing = pool.run(A, () => Promise.reject(new Error("no")));
    const next = pool.run(A, () => Promise.resolve(pool.findShortage(A)));
    await expect(failing).rejects.toThrow("no");
    expect(await next).toBe("share");
    expect(pool.findShortage(A)).toBeUndefined();
  });

  test("a canceled wait uses nothing and lets the next one pass", async () => {
    const pool = new SharePool({ max: 10, share: 10 });
    pool.spend(A, 6);
    const stop = new AbortController();
    const canceled = pool.acquire(A, 8, stop.signal);
    const next = pool.acquire(A, 4);
    stop.abort();
    expect(await canceled).toBeUndefined();
    expect(await next).toBeDefined();
    expect(await pool.acquire(A, 1, stop.signal)).toBeUndefined();
  });

  test("a grant removes the abort listener", async () => {
    const listeners = new Set<() => void>();
    const signal = {
      aborted: false,
      addEventListener: (_type: "abort", listener: () => void) => void listeners.add(listener),
      removeEventListener: (_type: "abort", listener: () => void) =>
        void listeners.delete(listener),
    };
    const pool = new SharePool({ max: 1, share: 1 });
    expect(await pool.acquire(A, 1, signal)).toBeDefined();
    expect(listeners.size).toBe(0);
  });
});

test("no sequence of requests exceeds a limit, and each ends with the whole pool free", async () => {
  const limits = { max: 12, share: 5, reserve: 3 };
  const step = fc.record({
    key: fc.constantFrom(A, B, C, NODE),
    amount: fc.integer({ min: 1, max: 8 }),
    releases: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const pool = new SharePool(limits);
      const held: { readonly key: string; readonly amount: number; readonly release: Release }[] =
        [];
      const check = (): void => {
        const sumOf = (isCounted: (key: string) => boolean): number =>
          held.filter(({ key }) => isCounted(key)).reduce((sum, { amount }) => sum + amount, 0);
        expect(sumOf(() => true)).toBeLessThanOrEqual(limits.max);
        expect(sumOf((key) => !isSystemKey(key))).toBeLessThanOrEqual(limits.max - limits.reserve);
        for (const one of [A, B, C, NODE])
          expect(sumOf((key) => key === one)).toBeLessThanOrEqual(limits.share);
      };
      let waiting = 0;
      for (const { key, amount, releases } of steps) {
        waiting += 1;
        void pool.acquire(key, amount).then((release) => {
          waiting -= 1;
          if (release !== undefined)
            held.push({ key, amount: Math.min(amount, limits.share), release });
        });
        if (releases) held.shift()?.release();
        await nextTurn();
        check();
      }
      for (let turn = 0; waiting > 0 || held.length > 0; turn += 1) {
        expect(turn).toBeLessThan(1000);
        held.shift()?.release();
        await nextTurn();
        check();
      }
      for (const key of [A, B, C, NODE])
        expect(pool.findShortage(key, limits.share)).toBeUndefined();
    }),
  );
});

describe("a rate limiter", () => {
  const RATE = { burst: 2, perSecond: 10 };
  const stop = new AbortController().signal;

  test("limits each tenant after its burst, and restores the burst with time", async () => {
    const clock = new ManualClock();
    const limiter = new RateLimiter(RATE, { clock, stop });
    const waits = (key: string, calls: number): readonly number[] =>
      Array.from({ length: calls }, () => limiter.tryProceed(key));
    expect(waits(A, 4)).toEqual([0, 0, 100, 100]);
    expect(waits(B, 1)).toEqual([0]);
    expect(waits(NODE, 9)).toEqual(Array.from({ length: 9 }, () => 0));
    await clock.advance(100);
    expect(waits(A, 2)).toEqual([0, 100]);
    await clock.advance(1000);
    expect(waits(A, 3)).toEqual([0, 0, 100]);
  });

  test("lets later calls of a key wait for an amount that it has used beyond its burst", async () => {
    const clock = new ManualClock();
    const limiter = new RateLimiter(RATE, { clock, stop });
    limiter.spend(A, 7);
    limiter.spend(NODE, 7);
    expect([A, B, NODE].map((key) => limiter.tryProceed(key))).toEqual([600, 0, 0]);
    await clock.advance(600);
    expect(limiter.tryProceed(A)).toBe(0);
  });

  test("lets waiting calls proceed in their order, except those that closed", async () => {
    const clock = new ManualClock();
    const limiter = new RateLimiter(RATE, { clock, stop });
    const responses = Array.from({ length: 5 }, () => new EventEmitter());
    const results: string[] = [];
    for (const [index, response] of responses.entries()) {
      void limiter.proceed(A, signalClose(response)).then((isOpen) => {
        results.push(`${String(index)} ${isOpen ? "proceeds" : "is closed"}`);
      });
    }
    await nextTurn();
    expect(results).toEqual(["0 proceeds", "1 proceeds"]);
    responses[2]?.emit("close");
    responses[3]?.emit("close");
    await clock.advance(100);
    await nextTurn();
    const [first, second, last] = results.slice(2);
    expect(new Set([first, second])).toEqual(new Set(["2 is closed", "3 is closed"]));
    expect(last).toBe("4 proceeds");
  });
});
