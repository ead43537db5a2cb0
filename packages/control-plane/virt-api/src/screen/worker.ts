// SPDX-License-Identifier: Apache-2.0
// Worker thread that captures one screen as PNG, so that neither the guest's data nor the compression delays admission.
import { parentPort, workerData } from "node:worker_threads";
import { constants, crc32, deflateRawSync } from "node:zlib";
import { isAppError, messageOf } from "@patchbay/base";
import { connectStream, type HandlerAddress, type HandlerAnswer } from "../handlers/client.ts";
import type { HandlerCredentials } from "../handlers/credentials.ts";
import {
  readScreen,
  throwUnreadable,
  type PictureOptions,
  type RowSink,
  type ScreenSize,
} from "./rfb.ts";

export interface ScreenshotRequest extends HandlerAddress, PictureOptions {
  readonly kind: "screenshot";
  readonly path: string;
  readonly credentials: HandlerCredentials;
}

export type ScreenshotResult =
  | { readonly png: Uint8Array<ArrayBuffer> }
  | { readonly refused: HandlerAnswer }
  | { readonly unreadable: string }
  | { readonly failed: string };

// PNG encoder. Sources: W3C, Portable Network Graphics (PNG) Specification; RFC 1950; RFC 1951

const PNG_SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const BIT_DEPTH = 8;
const TRUE_COLOR = 2;
const BYTES_PER_PIXEL = 3;
const ZLIB_HEADER = Buffer.from([0x78, 0x01]);
const LAST_BLOCK = Buffer.from([0x03, 0x00]);
/** Maximum size of rows that wait for an earlier row, in bytes. QEMU sends all rows in order. */
const WAITING_BYTES_MAX = 16 * 1024 * 1024;
const PNG_BYTES_MAX = 32 * 1024 * 1024;
const PIECE_BYTES = 256 * 1024;

function buildChunk(type: string, data: Buffer): Buffer {
  const chunk = Buffer.alloc(data.length + 12);
  chunk.writeUInt32BE(data.length);
  chunk.write(type, 4, "latin1");
  data.copy(chunk, 8);
  chunk.writeUInt32BE(crc32(chunk.subarray(4, -4)), data.length + 8);
  return chunk;
}

const ADLER_BASE = 65_521;
/** Number of bytes that can be added before a sum must be reduced. Source: zlib, NMAX */
const ADLER_STEP = 5552;

class Adler32 {
  #low = 1;
  #high = 0;

  add(bytes: Buffer): void {
    for (let from = 0; from < bytes.length; from += ADLER_STEP) {
      for (const byte of bytes.subarray(from, from + ADLER_STEP)) {
        this.#low += byte;
        this.#high += this.#low;
      }
      this.#low %= ADLER_BASE;
      this.#high %= ADLER_BASE;
    }
  }

  print(): Buffer {
    const sum = Buffer.alloc(4);
    sum.writeUInt16BE(this.#high);
    sum.writeUInt16BE(this.#low, 2);
    return sum;
  }
}

interface WaitingRow {
  /** Filter type 0 (none), followed by the pixels. */
  readonly bytes: Buffer;
  columns: number;
}

/** Encodes rows as soon as they and all rows above them are complete. */
export class PngEncoder implements RowSink {
  readonly #size: ScreenSize;
  readonly #checksum = new Adler32();
  readonly #chunks: Buffer[] = [PNG_SIGNATURE];
  readonly #waiting = new Map<number, WaitingRow>();
  #complete: Buffer[] = [];
  #completeBytes = 0;
  #nextRow = 0;
  #length = 0;

  constructor(size: ScreenSize) {
    this.#size = size;
    const header = Buffer.alloc(13);
    header.writeUInt32BE(size.width, 0);
    header.writeUInt32BE(size.height, 4);
    header.writeUInt8(BIT_DEPTH, 8);
    header.writeUInt8(TRUE_COLOR, 9);
    this.#add("IHDR", header);
    this.#add("IDAT", ZLIB_HEADER);
  }

  write(row: number, column: number, pixels: Buffer): void {
    if (row < this.#nextRow) return;
    const waitingRow = this.#findRow(row);
    const { bytes } = waitingRow;
    let to = 1 + column * BYTES_PER_PIXEL;
    for (let from = 0; from < pixels.length; from += 4) {
      bytes[to] = pixels[from] ?? 0;
      bytes[to + 1] = pixels[from + 1] ?? 0;
      bytes[to + 2] = pixels[from + 2] ?? 0;
      to += BYTES_PER_PIXEL;
    }
    waitingRow.columns += pixels.length / 4;
    while ((this.#waiting.get(this.#nextRow)?.columns ?? 0) >= this.#size.width) this.#endRow();
  }

  /** Returns the PNG. Pixels that were not written are black. */
  finish(): Uint8Array<ArrayBuffer> {
    while (this.#nextRow < this.#size.height) this.#endRow();
    this.#compress();
    this.#add("IDAT", Buffer.concat([LAST_BLOCK, this.#checksum.print()]));
    this.#add("IEND", Buffer.alloc(0));
    const png = new Uint8Array(this.#chunks.reduce((length, chunk) => length + chunk.length, 0));
    let offset = 0;
    for (const chunk of this.#chunks) {
      png.set(chunk, offset);
      offset += chunk.length;
    }
    return png;
  }

  #findRow(row: number): WaitingRow {
    const found = this.#waiting.get(row);
    if (found !== undefined) return found;
    const length = 1 + this.#size.width * BYTES_PER_PIXEL;
    if ((this.#waiting.size + 1) * length > WAITING_BYTES_MAX)
      throwUnreadable("its rows are unordered");
    const added = { bytes: Buffer.alloc(length), columns: 0 };
    this.#waiting.set(row, added);
    return added;
  }

  #endRow(): void {
    const { bytes } = this.#findRow(this.#nextRow);
    this.#waiting.delete(this.#nextRow);
    this.#nextRow += 1;
    this.#complete.push(bytes);
    this.#completeBytes += bytes.length;
    if (this.#completeBytes >= PIECE_BYTES) this.#compress();
  }

  /** Compresses the complete rows as blocks that end at a byte boundary, so that the blocks of all calls form one stream. */
  #compress(): void {
    const rows = Buffer.concat(this.#complete);
    this.#complete = [];
    this.#completeBytes = 0;
    if (rows.length === 0) return;
    this.#checksum.add(rows);
    const { Z_BEST_SPEED: level, Z_SYNC_FLUSH: finishFlush } = constants;
    this.#add("IDAT", deflateRawSync(rows, { level, finishFlush }));
  }

  #add(type: string, data: Buffer): void {
    const chunk = buildChunk(type, data);
    this.#length += chunk.length;
    if (this.#length > PNG_BYTES_MAX) throwUnreadable("its picture is too large");
    this.#chunks.push(chunk);
  }
}

async function capture(request: ScreenshotRequest): Promise<ScreenshotResult> {
  const opened = await connectStream(request, request.path, request.credentials);
  if ("refused" in opened) return opened;
  try {
    const encoder = await readScreen(opened.stream, (size) => new PngEncoder(size), request);
    return { png: encoder.finish() };
  } finally {
    opened.stream.destroy();
  }
}

async function serve(request: ScreenshotRequest): Promise<ScreenshotResult> {
  try {
    return await capture(request);
  } catch (error) {
    return isAppError(error, "API_SCREEN_UNREADABLE")
      ? { unreadable: String(error.details["reason"]) }
      : { failed: messageOf(error) };
  }
}

function isRequest(value: unknown): value is ScreenshotRequest {
  return (
    typeof value === "object" && value !== null && "kind" in value && value.kind === "screenshot"
  );
}

if (isRequest(workerData)) {
  const result = await serve(workerData);
  parentPort?.postMessage(result, "png" in result ? [result.png.buffer] : []);
}
