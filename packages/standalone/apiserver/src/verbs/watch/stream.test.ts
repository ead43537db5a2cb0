// SPDX-License-Identifier: Apache-2.0
// One open watch: pieces, what its user may leave unread, and its end.
import { SHARE_KEYS, SharePool } from "@patchbay/base";
import { describe, expect, test } from "vitest";
import { FakeResponse } from "../../testing/fake-response.ts";
import { ADMIN, runTurns } from "../../testing/test-server.ts";
import { openTimeSlice } from "../../testing/time-slice.ts";
import { WatchStream } from "./stream.ts";

const PIECE = 64 * 1024;
const BACKLOG = 256 * 1024;
const KEY = SHARE_KEYS.user({ name: "a", groups: [] });

class Unread {
  readonly pool: SharePool;
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
    this.pool = new SharePool({ max, share: max });
  }

  get isSpent(): boolean {
    return this.pool.findShortage(KEY) !== undefined;
  }

  /** Whether all bytes were released. */
  get isWhole(): boolean {
    return this.pool.findShortage(KEY, this.#max) === undefined;
  }
}

interface OpenOptions {
  readonly slow?: boolean;
  readonly budget?: number;
  readonly thread?: () => Promise<boolean>;
}

function open(options: OpenOptions = {}) {
  const response = new FakeResponse({ slow: options.slow === true });
  const waiting = new Unread(options.budget ?? 10 * BACKLOG);
  const stream = new WatchStream(response.asServerResponse, {
    unsentEvents: waiting.pool,
    shareKey: KEY,
    unreadMs: 30,
    timeSlice: openTimeSlice(ADMIN, options.thread === undefined ? {} : { thread: options.thread }),
  });
  return { response, waiting, stream };
}

test("begins with the response head", () => {
  const { response } = open();
  expect(response.head).toEqual({
    code: 200,
    headers: { "content-type": "application/json", "transfer-encoding": "chunked" },
  });
  expect([response.headersSent, response.unreadMs]).toEqual([true, 30]);
});

test("has ended without a head if the client disconnected before", () => {
  const response = new FakeResponse();
  response.destroy();
  const stream = new WatchStream(response.asServerResponse, {
    unsentEvents: new Unread(1).pool,
    shareKey: KEY,
    unreadMs: 30,
    timeSlice: openTimeSlice(ADMIN),
  });
  stream.write("x");
  expect([stream.signal.aborted, response.headersSent, response.text]).toEqual([true, false, ""]);
});

test("writes long text in chunks, and nothing for an empty text", async () => {
  const { response, stream, waiting } = open();
  stream.write("");
  stream.write(Buffer.alloc(PIECE + 1, "a"));
  stream.write("é");
  await stream.waitUntilDrained();
  await runTurns();
  expect(response.pieces).toEqual([PIECE, 1, 2]);
  expect(waiting.isWhole).toBe(true);
});

test("writes each further piece when its user may use the thread", async () => {
  const grants: ((isGranted: boolean) => void)[] = [];
  const thread = () => new Promise<boolean>((resolve) => grants.push(resolve));
  const { response, stream } = open({ thread });
  stream.write(Buffer.alloc(2 * PIECE + 1, "a"));
  let isDrained = false;
  void stream.waitUntilDrained().then(() => (isDrained = true));
  await runTurns();
  expect([response.pieces, grants.length, isDrained]).toEqual([[PIECE], 1, false]);
  grants[0]?.(true);
  await runTurns();
  expect([response.pieces, grants.length, isDrained]).toEqual([[PIECE, PIECE], 2, false]);
  grants[1]?.(true);
  await runTurns();
  expect([response.pieces, grants.length, isDrained]).toEqual([[PIECE, PIECE, 1], 2, true]);
});

describe("a client that does not read", () => {
  test("is behind when too much is pending, until it has read", async () => {
    const { response, stream } = open({ slow: true });
    stream.write(Buffer.alloc(BACKLOG, "a"));
    expect(stream.isBehind).toBe(false);
    stream.write("a");
    expect(stream.isBehind).toBe(true);
    let isDrained = false;
    const drained = stream.waitUntilDrained().then(() => {
      isDrained = true;
    });
    await runTurns();
    expect(isDrained).toBe(false);
    for (let piece = 0; piece < 6; piece += 1) {
      response.read();
      await runTurns();
    }
    await drained;
    expect([stream.isBehind, response.text.length]).toEqual([false, BACKLOG + 1]);
  });

  test("is behind when its user has used up the budget", () => {
    const { stream } = open({ slow: true, budget: 10 });
    stream.write("123456789");
    expect(stream.isBehind).toBe(false);
    stream.write("0");
    expect(stream.isBehind).toBe(true);
  });

  test("is cut off at the end when it is behind", async () => {
    const { response, stream, waiting } = open({ slow: true });
    stream.write(Buffer.alloc(BACKLOG + 1, "a"));
    stream.end();
    await runTurns();
    expect([response.destroyed, response.writableFinished]).toEqual([true, false]);
    expect(waiting.isWhole).toBe(true);
  });

  test("receives a small remainder at the end", async () => {
    const { response, stream } = open({ slow: true });
    stream.write(Buffer.alloc(2 * PIECE + 1, "a"));
    stream.end();
    for (let piece = 0; piece < 4; piece += 1) {
      response.read();
      await runTurns();
    }
    expect([response.text.length, response.writableFinished]).toEqual([2 * PIECE + 1, true]);
  });

  test("releases its pending bytes once when it disconnects", async () => {
    const { response, stream, waiting } = open({ slow: true, budget: 100 });
    waiting.pool.spend(KEY, 50);
    stream.write("x".repeat(60));
    expect(stream.isBehind).toBe(true);
    response.destroy();
    await runTurns();
    stream.write("more");
    waiting.pool.spend(KEY, 49);
    expect([stream.signal.aborted, waiting.isSpent]).toEqual([true, false]);
    waiting.pool.spend(KEY, 1);
    expect(waiting.isSpent).toBe(true);
  });

  test("unblocks pending waits when it disconnects", async () => {
    const { response, stream } = open({ slow: true });
    stream.write(Buffer.alloc(PIECE + 1, "a"));
    const drained = stream.waitUntilDrained();
    response.destroy();
    await expect(drained).resolves.toBeUndefined();
  });
});

describe("work that writes", () => {
  test("runs when the client has read, with a reservation from its user's budget", async () => {
    const { response, stream, waiting } = open({ slow: true, budget: 100 });
    stream.write(Buffer.alloc(PIECE, "a"));
    const done: boolean[] = [];
    const work = stream.withRoom(100, () => {
      done.push(waiting.isSpent);
      return Promise.resolve();
    });
    await runTurns();
    expect(done).toEqual([]);
    response.read();
    await work;
    expect([done, waiting.isSpent]).toEqual([[true], false]);
  });

  test("releases its reservation when it fails", async () => {
    const { stream, waiting } = open({ budget: 100 });
    await expect(stream.withRoom(100, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(waiting.isSpent).toBe(false);
  });

  test("does not run if the watch ends before", async () => {
    const { stream, waiting } = open({ budget: 100 });
    waiting.pool.spend(KEY, 100);
    let isDone = false;
    const work = stream.withRoom(1, () => {
      isDone = true;
      return Promise.resolve();
    });
    await runTurns();
    stream.end();
    await work;
    expect(isDone).toBe(false);
    waiting.pool.release(KEY, 1);
    expect(waiting.isSpent).toBe(false);
  });
});
