// SPDX-License-Identifier: Apache-2.0
import { inflateSync } from "node:zlib";
import { expect, test } from "vitest";
import { aScreen, SCREEN } from "../testing/screen.ts";
import { toPng } from "./screenshot.ts";
import { takePicture } from "./rfb.ts";

const PIXELS = Buffer.from([255, 0, 0, 0, 0, 0, 255, 0]);

test("a picture is put together from its parts", async () => {
  const { stream } = aScreen();
  expect(await takePicture(stream)).toEqual({ width: 2, height: 1, pixels: PIXELS });
});

test.each([
  { movesCursor: true, want: true },
  { movesCursor: false, want: false },
])("the pointer is moved where that is asked for: $movesCursor", async ({ movesCursor, want }) => {
  const { stream, said } = aScreen();
  await takePicture(stream, { movesCursor });
  stream.end();
  expect((await said()).includes(Buffer.from([5, 0, 0, 1, 0, 1]))).toBe(want);
});

/** The size, and whatever follows. */
function startOf(width: number, height: number, nameLength = 0): Buffer {
  const start = Buffer.alloc(24);
  start.writeUInt16BE(width, 0);
  start.writeUInt16BE(height, 2);
  start.writeUInt32BE(nameLength, 20);
  return start;
}

const PART = Buffer.from([0, 0, 0, 1, 0, 1, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0]);
const ODD = Buffer.from([0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 7]);

test.each([
  { name: "another protocol", change: { version: Buffer.from("SSH-2.0-abcd") }, want: /RFB 3.8/ },
  { name: "a password", change: { security: Buffer.from([1, 2]) }, want: /password/ },
  { name: "a refusal", change: { result: Buffer.from([0, 0, 0, 1]) }, want: /nobody/ },
  { name: "no size", change: { start: startOf(0, 1) }, want: /size/ },
  { name: "a size that nothing has", change: { start: startOf(65_535, 2) }, want: /size/ },
  { name: "a name without end", change: { start: startOf(2, 1, 2 ** 31) }, want: /too much/ },
  { name: "colours that nobody asked for", change: { before: Buffer.from([1]) }, want: /nobody/ },
  { name: "a part beside the screen", change: { update: PART }, want: /not on it/ },
  { name: "a part in another form", change: { update: ODD }, want: /not on it/ },
  { name: "half a picture", change: { update: SCREEN.update.subarray(0, 20) }, want: /ended/ },
])("$name is no picture", async ({ change, want }) => {
  await expect(takePicture(aScreen(change).stream)).rejects.toMatchObject({
    code: "API_SCREEN_UNREADABLE",
    message: expect.stringMatching(want) as string,
  });
});

test("a screen that breaks off is told of", async () => {
  const { stream } = aScreen({ update: Buffer.alloc(0) });
  stream.destroy(new Error("reset by peer"));
  await expect(takePicture(stream)).rejects.toMatchObject({ code: "API_SCREEN_UNREADABLE" });
});

test("the file has the picture's size and colours", async () => {
  const file = await toPng({ width: 2, height: 1, pixels: PIXELS });
  expect(file.subarray(1, 4).toString()).toBe("PNG");
  expect([file.readUInt32BE(16), file.readUInt32BE(20)]).toEqual([2, 1]);
  const at = file.indexOf("IDAT");
  const data = file.subarray(at + 4, at + 4 + file.readUInt32BE(at - 4));
  expect([...inflateSync(data)]).toEqual([0, 255, 0, 0, 0, 0, 255]);
});
