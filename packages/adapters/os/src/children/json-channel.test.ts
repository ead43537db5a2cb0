// SPDX-License-Identifier: Apache-2.0
// Messages of parent and child over a stream of the test: how they are cut into lines, and what ends the stream.
import { closeSync, mkdtempSync, openSync, readdirSync, readlinkSync, rmSync } from "node:fs";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { Duplex } from "node:stream";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { osNative } from "../native.ts";
import { JsonChannel } from "./json-channel.ts";

const LINE_BYTES_MAX = 8 * 1024 * 1024;

let written: string[];
let stream: Duplex;
let channel: JsonChannel;
let received: unknown[];

beforeEach(() => {
  written = [];
  received = [];
  stream = new Duplex({
    read: () => undefined,
    write: (bytes: Buffer, _encoding, done) => {
      written.push(bytes.toString());
      done();
    },
  });
  channel = new JsonChannel(stream as Socket, -1); // a channel uses a stream of bytes
});

const listen = (message: unknown): void => {
  received.push(message);
};

/** The other end writes these pieces. */
async function write(...pieces: readonly (string | Buffer)[]): Promise<void> {
  for (const piece of pieces) stream.push(piece);
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
}

describe("received messages", () => {
  test.each([
    { name: "one message in one chunk", pieces: ['{"a":1}\n'], want: [{ a: 1 }] },
    { name: "several messages in one chunk", pieces: ["1\n2\n3\n"], want: [1, 2, 3] },
    { name: "one message in several chunks", pieces: ['{"a"', ":", "1}", "\n"], want: [{ a: 1 }] },
    {
      name: "the end of a message with the start of the next",
      pieces: ["1", "2\n3", "4\n"],
      want: [12, 34],
    },
    { name: "a message without a line end", pieces: ["1\n2"], want: [1] },
    {
      name: "a message split within a character",
      pieces: [Buffer.from('"ä"\n').subarray(0, 2), Buffer.from('"ä"\n').subarray(2)],
      want: ["ä"],
    },
  ])("$name", async ({ pieces, want }) => {
    channel.onMessage(listen);
    await write(...pieces);
    expect(received).toEqual(want);
    expect(stream.destroyed).toBe(false);
  });

  test("wait for a listener", async () => {
    await write("1\n2\n");
    channel.onMessage(listen);
    expect(received).toEqual([1, 2]);
  });

  test("wait while the channel is paused", async () => {
    channel.onMessage(listen);
    channel.pause();
    await write("1\n");
    expect(received).toEqual([]);
    channel.onMessage(listen);
    await write("2\n");
    expect(received).toEqual([1, 2]);
  });

  test("are delivered to the next listener when the current one is replaced", async () => {
    await write("1\n2\n3\n");
    channel.onMessage((message) => {
      received.push(`first ${String(message)}`);
      channel.onMessage(listen);
    });
    await write("4\n");
    expect(received).toEqual(["first 1", 2, 3, 4]);
  });

  test("are retained when a listener pauses the channel", async () => {
    await write("1\n2\n");
    channel.onMessage((message) => {
      listen(message);
      channel.pause();
    });
    expect([received, stream.isPaused()]).toEqual([[1], true]);
    channel.onMessage(listen);
    expect(received).toEqual([1, 2]);
  });

  test("that are not JSON end the stream, and later ones are ignored", async () => {
    channel.onMessage(listen);
    await write("1\nno JSON\n2\n");
    expect([received, stream.destroyed]).toEqual([[1], true]);
  });

  test.each([
    { name: "a line of the maximum length", bytes: LINE_BYTES_MAX, isCut: false },
    { name: "a line longer than the maximum", bytes: LINE_BYTES_MAX + 1, isCut: true },
  ])("$name without a line end: ends the stream: $isCut", async ({ bytes, isCut }) => {
    channel.onMessage(listen);
    await write(Buffer.alloc(bytes - 10, " "), Buffer.alloc(10, " "));
    expect(stream.destroyed).toBe(isCut);
  });

  test("have their length counted from the last line end", async () => {
    channel.onMessage(listen);
    const half = Buffer.alloc(LINE_BYTES_MAX / 2 + 1, " ");
    await write(half, "1\n", half, "2\n");
    expect([received, stream.destroyed]).toEqual([[1, 2], false]);
  });
});

describe("sent messages", () => {
  test("are one line each", () => {
    channel.send({ a: 1 });
    channel.send("two\nlines");
    expect(written).toEqual(['{"a":1}\n', '"two\\nlines"\n']);
  });

  test("that are too long are rejected, and no part of them is sent", () => {
    const fits = "x".repeat(LINE_BYTES_MAX - 3);
    channel.send(fits);
    expect(written).toHaveLength(1);
    expect(() => {
      channel.send(`${fits}x`);
    }).toThrow(expect.objectContaining({ code: "OS_MESSAGE_TOO_LONG" }));
    expect(written).toHaveLength(1);
  });

  test("are dropped after the peer has ended", () => {
    stream.destroy();
    channel.send(1);
    expect(written).toEqual([]);
  });

  test("end the stream when the peer does not read", () => {
    const stuck = new Duplex({ read: () => undefined, write: () => undefined });
    const other = new JsonChannel(stuck as Socket, -1); // as above
    const message = "x".repeat(LINE_BYTES_MAX - 3);
    for (let count = 0; count < 9; count += 1) other.send(message);
    expect(stuck.destroyed).toBe(false);
    other.send(1);
    expect(stuck.destroyed).toBe(true);
  });
});

test("an error of the stream is handled by its owner", async () => {
  stream.destroy(new Error("reset"));
  await write();
  expect(stream.destroyed).toBe(true);
});

describe("descriptors", () => {
  let ours: JsonChannel;
  let theirs: JsonChannel;
  let directory: string;
  let before: readonly string[];

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "json-channel-"));
    before = readdirSync("/proc/self/fd");
    const [one, other] = osNative().socketPair();
    ours = new JsonChannel(new Duplex() as Socket, one); // as above
    theirs = new JsonChannel(new Duplex() as Socket, other);
  });
  afterEach(() => {
    for (const end of [ours, theirs]) end.closeDescriptors();
    rmSync(directory, { recursive: true });
  });

  /** Sends the descriptor of a new file, by the name of which it is known. */
  function send(name: string, token: number): void {
    const fd = openSync(join(directory, name), "w");
    ours.sendDescriptor(fd, token);
    closeSync(fd);
  }

  function take(token: number): string {
    const descriptor = theirs.claimDescriptor(token);
    const name = basename(readlinkSync(`/proc/self/fd/${String(descriptor.fd)}`));
    descriptor.close();
    return name;
  }

  test("are claimed by token in any order; a reused token returns the later one", () => {
    send("one", 1);
    send("former two", 2);
    send("two", 2);
    send("three", 3);
    expect([3, 1, 2].map(take)).toEqual(["three", "one", "two"]);
    for (const end of [ours, theirs]) end.closeDescriptors();
    expect(readdirSync("/proc/self/fd")).toEqual(before);
  });

  test("can be claimed only once", () => {
    send("one", 1);
    send("two", 2);
    expect([take(2), take(1)]).toEqual(["two", "one"]);
    expect(() => take(1)).toThrow(
      expect.objectContaining({
        code: "OS_FILE_FAILED",
        details: expect.objectContaining({
          call: "recvmsg",
          path: "descriptor (EAGAIN)",
        }) as object,
      }) as Error,
    );
  });

  test("are limited to 64 that are not claimed yet", () => {
    for (let token = 0; token < 64; token += 1) ours.sendDescriptor(0, token);
    expect(() => theirs.claimDescriptor(64)).toThrow("too many descriptors wait");
    for (let token = 0; token < 64; token += 1) theirs.claimDescriptor(token).close();
    for (let token = 0; token < 64; token += 1) ours.sendDescriptor(0, token);
    theirs.claimDescriptor(63).close();
    theirs.closeDescriptors();
    ours.closeDescriptors();
    expect(readdirSync("/proc/self/fd")).toEqual(before);
  });

  test("are neither sent nor claimed after the peer is closed", () => {
    theirs.closeDescriptors();
    theirs.closeDescriptors();
    const failed = (call: string): unknown =>
      expect.objectContaining({
        code: "OS_FILE_FAILED",
        details: expect.objectContaining({ call, reason: "the other end is gone" }) as object,
      });
    expect(() => {
      theirs.sendDescriptor(0, 1);
    }).toThrow(failed("sendmsg"));
    expect(() => theirs.claimDescriptor(1)).toThrow(failed("recvmsg"));
  });
});
