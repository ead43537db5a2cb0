// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import type { Duplex } from "node:stream";
import { crc32, inflateSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { aScreen, SCREEN } from "../testing/screen.ts";
import { readScreen, type PictureOptions, type RowSink, type ScreenSize } from "./rfb.ts";
import { PngEncoder } from "./worker.ts";

const PIXELS = Buffer.from([255, 0, 0, 0, 0, 0, 255, 0]);

class Picture implements RowSink {
  readonly size: ScreenSize;
  readonly pixels: Buffer;

  constructor(size: ScreenSize) {
    this.size = size;
    this.pixels = Buffer.alloc(size.width * size.height * 4);
  }

  write(row: number, column: number, pixels: Buffer): void {
    pixels.copy(this.pixels, (row * this.size.width + column) * 4);
  }
}

function takePicture(stream: Duplex, options: PictureOptions = {}): Promise<Picture> {
  return readScreen(stream, (size) => new Picture(size), options);
}

test("assembles a picture from its rectangles", async () => {
  const { stream } = aScreen();
  expect(await takePicture(stream)).toMatchObject({
    size: { width: 2, height: 1 },
    pixels: PIXELS,
  });
});

test.each([
  { movesCursor: true, want: true },
  { movesCursor: false, want: false },
])("moves the pointer only on request: $movesCursor", async ({ movesCursor, want }) => {
  const { stream, received } = aScreen();
  await takePicture(stream, { movesCursor });
  stream.end();
  expect((await received()).includes(Buffer.from([5, 0, 0, 1, 0, 1]))).toBe(want);
});

test("accepts rectangles without pixels", async () => {
  const empty = Buffer.from([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
  const update = Buffer.concat([Buffer.from([0, 0, 0, 3]), empty, SCREEN.update.subarray(4)]);
  const picture = await takePicture(aScreen({ update }).stream);
  expect(picture.pixels).toEqual(PIXELS);
});

/** ServerInit with this size, followed by other bytes. */
function startOf(width: number, height: number, nameLength = 0): Buffer {
  const start = Buffer.alloc(24);
  start.writeUInt16BE(width, 0);
  start.writeUInt16BE(height, 2);
  start.writeUInt32BE(nameLength, 20);
  return start;
}

/** An update of this many copies of a rectangle of one pixel. */
function repeated(count: number): Buffer {
  const pixel = Buffer.concat([Buffer.from([0, 0, 0, 0, 0, 1, 0, 1]), Buffer.alloc(8)]);
  const pixels = Array.from({ length: count }, () => pixel);
  return Buffer.concat([Buffer.from([0, 0, 0, count]), ...pixels]);
}

const PART = Buffer.from([0, 0, 0, 1, 0, 1, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0]);
const ODD = Buffer.from([0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 7]);

test.each([
  { name: "another protocol", change: { version: Buffer.from("SSH-2.0-abcd") }, want: /RFB 3.8/ },
  { name: "a password", change: { security: Buffer.from([1, 2]) }, want: /password/ },
  {
    name: "a rejected connection",
    change: { result: Buffer.from([0, 0, 0, 1]) },
    want: /rejected/,
  },
  { name: "an empty screen", change: { start: startOf(0, 1) }, want: /size/ },
  { name: "a size above the limit", change: { start: startOf(65_535, 2) }, want: /size/ },
  { name: "a name above the limit", change: { start: startOf(2, 1, 2 ** 31) }, want: /too long/ },
  {
    name: "more than 64 messages before the picture",
    change: { before: Buffer.alloc(65, 2) },
    want: /more than 64 messages/,
  },
  { name: "a picture that is sent three times", change: { update: repeated(5) }, want: /repeat/ },
  { name: "an unrequested color map", change: { before: Buffer.from([1]) }, want: /unexpected/ },
  { name: "a rectangle outside the screen", change: { update: PART }, want: /outside the screen/ },
  { name: "a rectangle in another encoding", change: { update: ODD }, want: /outside the screen/ },
  {
    name: "a truncated picture",
    change: { update: SCREEN.update.subarray(0, 20) },
    want: /closed/,
  },
])("rejects $name", async ({ change, want }) => {
  await expect(takePicture(aScreen(change).stream)).rejects.toMatchObject({
    code: "API_SCREEN_UNREADABLE",
    message: expect.stringMatching(want) as string,
  });
});

test("reports a screen that disconnects", async () => {
  const { stream } = aScreen({ update: Buffer.alloc(0) });
  stream.destroy(new Error("reset by peer"));
  await expect(takePicture(stream)).rejects.toMatchObject({ code: "API_SCREEN_UNREADABLE" });
});

/** Checks the chunks of a PNG. Returns its size and its rows. */
function readPng(file: Uint8Array): { readonly size: ScreenSize; readonly rows: Buffer } {
  const png = Buffer.from(file);
  expect(png.subarray(0, 8).toString("latin1")).toBe("\x89PNG\r\n\x1a\n");
  const data: Buffer[] = [];
  const types: string[] = [];
  for (let offset = 8; offset < png.length;) {
    const length = png.readUInt32BE(offset);
    const body = png.subarray(offset + 4, offset + 8 + length);
    expect(png.readUInt32BE(offset + 8 + length)).toBe(crc32(body));
    const type = body.subarray(0, 4).toString("latin1");
    types.push(type);
    if (type === "IDAT") data.push(body.subarray(4));
    offset += length + 12;
  }
  expect([types[0], types.at(-1)]).toEqual(["IHDR", "IEND"]);
  // inflateSync checks the Adler-32 sum.
  return {
    size: { width: png.readUInt32BE(16), height: png.readUInt32BE(20) },
    rows: inflateSync(Buffer.concat(data)),
  };
}

describe("the PNG", () => {
  test("has the picture's size and colors", async () => {
    const encoder = await readScreen(aScreen().stream, (size) => new PngEncoder(size));
    expect(readPng(encoder.finish())).toEqual({
      size: { width: 2, height: 1 },
      rows: Buffer.from([0, 255, 0, 0, 0, 0, 255]),
    });
  });

  test("contains rows in the order of the screen, and black where nothing was sent", () => {
    const encoder = new PngEncoder({ width: 2, height: 3 });
    encoder.write(2, 0, PIXELS);
    encoder.write(0, 1, PIXELS.subarray(4));
    encoder.write(0, 0, PIXELS.subarray(0, 4));
    encoder.write(0, 0, PIXELS.subarray(4));
    expect([...readPng(encoder.finish()).rows]).toEqual([
      0, 255, 0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0, 0, 0, 255,
    ]);
  });

  test("consists of many pieces if the picture is large", () => {
    const [width, height] = [640, 400];
    const encoder = new PngEncoder({ width, height });
    const line = Buffer.from(Array.from({ length: width * 4 }, (_, index) => (index * 7) % 251));
    for (let row = 0; row < height; row += 1) encoder.write(row, 0, line);
    const { rows } = readPng(encoder.finish());
    const want = Array.from({ length: width }, (_, column) => [
      ...line.subarray(column * 4, column * 4 + 3),
    ]).flat();
    expect(rows.length).toBe((1 + width * 3) * height);
    const stride = 1 + width * 3;
    for (const row of [0, 136, 137, 399])
      expect([...rows.subarray(row * stride, (row + 1) * stride)]).toEqual([0, ...want]);
  });

  test("is refused if too many rows wait for an earlier one", () => {
    const encoder = new PngEncoder({ width: 5120, height: 5120 });
    const line = Buffer.alloc(5120 * 4);
    expect(() => {
      for (let row = 5119; row > 0; row -= 1) encoder.write(row, 0, line);
    }).toThrow(expect.objectContaining({ code: "API_SCREEN_UNREADABLE" }));
  });

  test("is refused if it becomes too large", () => {
    const encoder = new PngEncoder({ width: 5120, height: 5120 });
    // Deflate's window of 32 KiB contains no earlier line that is equal.
    const lines = Array.from({ length: 4 }, () => randomBytes(5120 * 4));
    expect(() => {
      for (let row = 0; row < 5120; row += 1)
        encoder.write(row, 0, lines[row % 4] ?? Buffer.alloc(0));
    }).toThrow(expect.objectContaining({ code: "API_SCREEN_UNREADABLE" }));
  });
});
