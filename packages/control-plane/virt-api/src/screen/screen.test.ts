// SPDX-License-Identifier: Apache-2.0
import { inflateSync } from "node:zlib";
import { expect, test } from "vitest";
import { aScreen, SCREEN } from "../testing/screen.ts";
import { toPng } from "./screenshot.ts";
import { takePicture } from "./rfb.ts";

const PIXELS = Buffer.from([255, 0, 0, 0, 0, 0, 255, 0]);

test("assembles a picture from its rectangles", async () => {
  const { stream } = aScreen();
  expect(await takePicture(stream)).toEqual({ width: 2, height: 1, pixels: PIXELS });
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

test("the PNG has the picture's size and colors", async () => {
  const file = await toPng({ width: 2, height: 1, pixels: PIXELS });
  expect(file.subarray(1, 4).toString()).toBe("PNG");
  expect([file.readUInt32BE(16), file.readUInt32BE(20)]).toEqual([2, 1]);
  const at = file.indexOf("IDAT");
  const data = file.subarray(at + 4, at + 4 + file.readUInt32BE(at - 4));
  expect([...inflateSync(data)]).toEqual([0, 255, 0, 0, 0, 0, 255]);
});
