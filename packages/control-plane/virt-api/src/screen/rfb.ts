// SPDX-License-Identifier: Apache-2.0
// Takes screenshots over VNC. Every length is limited, because a compromised guest may control QEMU. Source: RFC 6143
import type { Duplex } from "node:stream";
import { AppError, ByteQueue, messageOf } from "@patchbay/base";

export interface ScreenSize {
  readonly width: number;
  readonly height: number;
}

export interface RowSink {
  /** Receives a part of a row from that column on, with 4 bytes per pixel: red, green, blue, unused. */
  write(row: number, column: number, pixels: Buffer): void;
}

export interface PictureOptions {
  /** Whether the pointer is moved before the picture is taken, to wake the guest's screen. */
  readonly movesCursor?: boolean;
}

const RFB_VERSION = "RFB 003.008\n";
/** Messages to the server: use no password, and keep the other clients connected. */
const [SECURITY_TYPE_NONE, SHARED_FLAG] = [Buffer.from([1]), Buffer.from([1])];
/** Pixel format with 32 bits: true color, 8 bits per channel, red first. Source: RFC 6143, 7.4 */
const PIXEL_FORMAT = Buffer.from([32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 0, 8, 16, 0, 0, 0]);
const BYTES_PER_PIXEL = 4;
/** QEMU's limit of width and height in pixels. Source: QEMU ui/vnc.h VNC_MAX_WIDTH */
const SIDE_MAX_PIXELS = 5120;
/** Maximum length of the desktop name and of clipboard text, in bytes. */
const TEXT_MAX = 1024 * 1024;
/** Maximum number of other messages before the picture, and of transfers of each pixel. QEMU sends no others, and each pixel once. */
const [SKIPPED_MESSAGES_MAX, PIXEL_REPETITIONS_MAX] = [64, 2];

export function throwUnreadable(reason: string): never {
  throw new AppError("API_SCREEN_UNREADABLE", { reason });
}

class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #received = new ByteQueue();

  constructor(stream: Duplex) {
    // The cast is safe, because a stream without an encoding yields buffers.
    this.#chunks = (stream as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  }

  async take(count: number): Promise<Buffer> {
    for (;;) {
      const bytes = this.takeReceived(count);
      if (bytes !== undefined) return bytes;
      const next = await this.#chunks.next();
      if (next.done === true)
        throwUnreadable("the connection was closed; another client may use it exclusively");
      this.#received.push(next.value);
    }
  }

  takeReceived(count: number): Buffer | undefined {
    const bytes = this.#received.take(count);
    return bytes && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  async skipText(length: number): Promise<void> {
    if (length > TEXT_MAX) throwUnreadable("a text is too long");
    await this.take(length);
  }
}

async function handshake(stream: Duplex, reader: ByteReader): Promise<ScreenSize> {
  const version = (await reader.take(RFB_VERSION.length)).toString("latin1");
  if (version !== RFB_VERSION) throwUnreadable("it does not support RFB 3.8");
  stream.write(RFB_VERSION);
  const [count = 0] = await reader.take(1);
  if (!(await reader.take(count)).includes(1)) throwUnreadable("it requires a password");
  stream.write(SECURITY_TYPE_NONE);
  if ((await reader.take(4)).readUInt32BE() !== 0) throwUnreadable("it rejected the connection");
  stream.write(SHARED_FLAG);
  const serverInit = await reader.take(24);
  await reader.skipText(serverInit.readUInt32BE(20)); // Skips the desktop name.
  const [width, height] = [serverInit.readUInt16BE(0), serverInit.readUInt16BE(2)];
  if (Math.min(width, height) === 0 || Math.max(width, height) > SIDE_MAX_PIXELS)
    throwUnreadable("its size is invalid");
  return { width, height };
}

/** Builds a pointer event without pressed buttons. Source: RFC 6143, 7.5.5 */
function buildPointerEvent(x: number, y: number): Buffer {
  const event = Buffer.alloc(6);
  event.writeUInt8(5);
  event.writeUInt16BE(x, 2);
  event.writeUInt16BE(y, 4);
  return event;
}

/** Builds a non-incremental update request for the whole screen. Source: RFC 6143, 7.5.3 */
function buildUpdateRequest({ width, height }: ScreenSize): Buffer {
  const request = Buffer.alloc(10);
  request.writeUInt8(3);
  request.writeUInt16BE(width, 6);
  request.writeUInt16BE(height, 8);
  return request;
}

/** Skips to the next framebuffer update. Returns its number of rectangles. Source: RFC 6143, 7.6 */
async function skipToUpdate(reader: ByteReader): Promise<number> {
  for (let skipped = 0; skipped <= SKIPPED_MESSAGES_MAX; skipped += 1) {
    const [type] = await reader.take(1);
    switch (type) {
      case 0:
        return (await reader.take(3)).readUInt16BE(1);
      case 2: // Bell
        break;
      case 3:
        await reader.skipText((await reader.take(7)).readUInt32BE(3));
        break;
      case undefined:
      default:
        throwUnreadable("it sent an unexpected message");
    }
  }
  return throwUnreadable(
    `it sent more than ${String(SKIPPED_MESSAGES_MAX)} messages before the picture`,
  );
}

async function readRectanglePixels(
  reader: ByteReader,
  { width, height }: ScreenSize,
  sink: RowSink,
): Promise<number> {
  const header = await reader.take(12);
  const [x, y] = [header.readUInt16BE(0), header.readUInt16BE(2)];
  const [columns, rows] = [header.readUInt16BE(4), header.readUInt16BE(6)];
  if (header.readInt32BE(8) !== 0 || x + columns > width || y + rows > height) {
    throwUnreadable("it sent a rectangle outside the screen");
  }
  const lineBytes = columns * BYTES_PER_PIXEL;
  for (let row = 0; row < rows && columns > 0; row += 1) {
    sink.write(y + row, x, reader.takeReceived(lineBytes) ?? (await reader.take(lineBytes)));
  }
  return columns * rows;
}

interface PictureTarget {
  readonly size: ScreenSize;
  readonly sink: RowSink;
}

async function readRectangles(
  reader: ByteReader,
  { size, sink }: PictureTarget,
  count: number,
): Promise<void> {
  const pixelsMax = PIXEL_REPETITIONS_MAX * size.width * size.height;
  let pixels = 0;
  for (let remaining = count; remaining > 0; remaining -= 1) {
    pixels += await readRectanglePixels(reader, size, sink);
    if (pixels > pixelsMax) throwUnreadable("its rectangles repeat the picture");
  }
}

/** Writes the whole screen into a sink. The caller must close the stream. @throws AppError with API_SCREEN_UNREADABLE */
export async function readScreen<Sink extends RowSink>(
  stream: Duplex,
  createSink: (size: ScreenSize) => Sink,
  { movesCursor = false }: PictureOptions = {},
): Promise<Sink> {
  try {
    const reader = new ByteReader(stream);
    const size = await handshake(stream, reader);
    const setFormat = Buffer.concat([Buffer.from([0, 0, 0, 0]), PIXEL_FORMAT]);
    const setEncodings = Buffer.from([2, 0, 0, 1, 0, 0, 0, 0]); // Requests raw encoding only.
    const pointerEvents = movesCursor ? [buildPointerEvent(0, 0), buildPointerEvent(1, 1)] : [];
    stream.write(
      Buffer.concat([setFormat, setEncodings, ...pointerEvents, buildUpdateRequest(size)]),
    );
    const sink = createSink(size);
    await readRectangles(reader, { size, sink }, await skipToUpdate(reader));
    return sink;
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    throw new AppError("API_SCREEN_UNREADABLE", { reason: messageOf(cause) }, { cause });
  }
}
