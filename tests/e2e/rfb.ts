// SPDX-License-Identifier: Apache-2.0
// One picture of a screen by VNC, as a viewer takes it, and as PNG. Source: RFC 6143; W3C, Portable Network Graphics
import { crc32, deflateSync } from "node:zlib";
import type { Socket } from "node:net";

/** A picture, 4 bytes a pixel: red, green, blue, and one that counts for nothing. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly pixels: Buffer;
}

const VERSION = "RFB 003.008\n";
/** Security type None, and that the screen is shared. */
const [NO_SECURITY, SHARED] = [Buffer.from([1]), Buffer.from([1])];
/** 32 bits, 24 of them true colours of 8 bits each, red first. RFC 6143, 7.4 */
const PIXEL_FORMAT = Buffer.from([32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 0, 8, 16, 0, 0, 0]);
const BYTES_PER_PIXEL = 4;

/** Gives so many bytes as are asked for, as they come. */
class Bytes {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(socket: Socket) {
    // A socket without an encoding gives buffers.
    this.#chunks = (socket as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  }

  async take(count: number): Promise<Buffer> {
    const chunks = [this.#rest];
    for (let length = this.#rest.length; length < count;) {
      const next = await this.#chunks.next();
      if (next.done === true) throw new Error("the screen has ended");
      chunks.push(next.value);
      length += next.value.length;
    }
    const all = Buffer.concat(chunks);
    this.#rest = all.subarray(count);
    return all.subarray(0, count);
  }
}

async function greet(
  socket: Socket,
  bytes: Bytes,
): Promise<{ readonly width: number; readonly height: number }> {
  const version = String(await bytes.take(VERSION.length));
  if (version !== VERSION) throw new Error(`it speaks ${version}`);
  socket.write(VERSION);
  const [count = 0] = await bytes.take(1);
  if (!(await bytes.take(count)).includes(1)) throw new Error("it wants a password");
  socket.write(NO_SECURITY);
  if ((await bytes.take(4)).readUInt32BE() !== 0) throw new Error("it refuses");
  socket.write(SHARED);
  const start = await bytes.take(24);
  await bytes.take(start.readUInt32BE(20)); // its name
  return { width: start.readUInt16BE(0), height: start.readUInt16BE(2) };
}

/** Takes one picture of the whole screen. */
export async function takePicture(socket: Socket): Promise<Picture> {
  const bytes = new Bytes(socket);
  const { width, height } = await greet(socket, bytes);
  const setEncodings = Buffer.from([2, 0, 0, 1, 0, 0, 0, 0]); // raw alone
  const request = Buffer.alloc(10);
  request.writeUInt8(3);
  request.writeUInt16BE(width, 6);
  request.writeUInt16BE(height, 8);
  socket.write(Buffer.concat([Buffer.from([0, 0, 0, 0]), PIXEL_FORMAT, setEncodings, request]));
  const pixels = Buffer.alloc(width * height * BYTES_PER_PIXEL);
  const head = await bytes.take(4);
  for (let left = head.readUInt16BE(2); left > 0; left -= 1) {
    const rectangle = await bytes.take(12);
    const [x, y] = [rectangle.readUInt16BE(0), rectangle.readUInt16BE(2)];
    const [columns, rows] = [rectangle.readUInt16BE(4), rectangle.readUInt16BE(6)];
    for (let row = 0; row < rows; row += 1) {
      const line = await bytes.take(columns * BYTES_PER_PIXEL);
      line.copy(pixels, ((y + row) * width + x) * BYTES_PER_PIXEL);
    }
  }
  return { width, height, pixels };
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  check.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, check]);
}

/** The picture as a file. */
export function toPng({ width, height, pixels }: Picture): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.writeUInt8(8, 8); // bits of each colour
  header.writeUInt8(2, 9); // red, green and blue
  const lines = Array.from({ length: height }, (_line, row) => {
    const line = Buffer.alloc(1 + width * 3); // its first byte: no filter
    for (let column = 0; column < width; column += 1) {
      pixels.copy(line, 1 + column * 3, (row * width + column) * 4, (row * width + column) * 4 + 3);
    }
    return line;
  });
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(Buffer.concat(lines))),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}
