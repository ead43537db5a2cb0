// SPDX-License-Identifier: Apache-2.0
// A picture as a file. Source: W3C, Portable Network Graphics (PNG) Specification
import { promisify } from "node:util";
import { crc32, deflate } from "node:zlib";
import type { Picture } from "./rfb.ts";

const deflated = promisify(deflate);
const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
/** Of each colour. */
const BITS = 8;
/** Red, green and blue. */
const TRUE_COLOUR = 2;

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  check.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, check]);
}

/** Its rows, each behind a byte that says that nothing is filtered. */
function rowsOf({ width, height, pixels }: Picture): Buffer {
  const stride = 1 + width * 3;
  const rows = Buffer.alloc(stride * height);
  for (let row = 0; row < height; row += 1) {
    for (let column = 0; column < width; column += 1) {
      const from = (row * width + column) * 4;
      pixels.copy(rows, row * stride + 1 + column * 3, from, from + 3);
    }
  }
  return rows;
}

/** The picture as a file. */
export async function toPng(picture: Picture): Promise<Buffer> {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(picture.width, 0);
  header.writeUInt32BE(picture.height, 4);
  header.writeUInt8(BITS, 8);
  header.writeUInt8(TRUE_COLOUR, 9);
  return Buffer.concat([
    SIGNATURE,
    chunk("IHDR", header),
    chunk("IDAT", await deflated(rowsOf(picture))),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}
