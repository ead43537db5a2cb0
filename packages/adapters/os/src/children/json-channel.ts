// SPDX-License-Identifier: Apache-2.0
// How do parent and child talk? JSON, one line a message, over a stream; descriptors over a socket beside it.
import { closeSync } from "node:fs";
import type { Socket } from "node:net";
import { AppError } from "@patchbay/core/errors";
import type { ChildChannel, TakenDescriptor } from "@patchbay/core/ports";
import { errnoOf, toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";

/** Longest line, bytes: a longer one is not sent, and whoever sends one nevertheless is cut off. */
const LINE_BYTES_MAX = 8 * 1024 * 1024;

/** Bytes that wait to be written; more means that the other end does not read. */
const WAITING_BYTES_MAX = 64 * 1024 * 1024;

/** Descriptors that wait to be taken, those of this call among them; more means that the other end misbehaves. */
const DESCRIPTORS_MAX = 64;

/** A {@link ChildChannel} over a stream and the end of a socket pair. */
export class JsonChannel implements ChildChannel {
  readonly #stream: Socket;
  /** Undefined when it is closed: its number may be another file's. */
  #descriptorEnd: number | undefined;
  readonly #waiting: unknown[] = [];
  readonly #descriptors = new Map<number, number>();
  #listener: ((message: unknown) => void) | undefined;
  #parts: Buffer[] = [];
  #partBytes = 0;

  constructor(stream: Socket, descriptorEnd: number) {
    this.#stream = stream;
    this.#descriptorEnd = descriptorEnd;
    stream.on("data", (data: Buffer) => {
      this.#read(data);
    });
    // The end of the stream is what its owner listens to; an error is followed by it.
    stream.on("error", () => undefined);
  }

  send(message: unknown): void {
    if (this.#stream.writableLength > WAITING_BYTES_MAX) this.#stream.destroy();
    const line = `${JSON.stringify(message)}\n`;
    const bytes = Buffer.byteLength(line);
    if (bytes > LINE_BYTES_MAX) {
      throw new AppError("OS_MESSAGE_TOO_LONG", { bytes, bytesMax: LINE_BYTES_MAX });
    }
    if (this.#stream.writable) this.#stream.write(line);
  }

  onMessage(listener: (message: unknown) => void): void {
    this.#listener = listener;
    // A listener may hand over to another, or pause, in the middle: what still waits is not for it.
    while (this.#listener === listener && this.#waiting.length > 0) {
      listener(this.#waiting.shift());
    }
    if (this.#listener === listener) this.#stream.resume();
  }

  /** Keeps messages until there is a listener again. */
  pause(): void {
    this.#listener = undefined;
    this.#stream.pause();
  }

  sendDescriptor(fd: number, token: number): void {
    try {
      osNative().sendDescriptor(this.#openEnd(), fd, token);
    } catch (error) {
      throw toFileError(error, "sendmsg", "descriptor");
    }
  }

  takeDescriptor(token: number): TakenDescriptor {
    const fd = this.#find(token);
    return {
      fd,
      close: () => {
        closeSync(fd);
      },
    };
  }

  /** Closes the descriptors' end and what waits, after which none is sent or taken; may be repeated. */
  closeDescriptors(): void {
    if (this.#descriptorEnd !== undefined) closeSync(this.#descriptorEnd);
    this.#descriptorEnd = undefined;
    for (const fd of this.#descriptors.values()) closeSync(fd);
    this.#descriptors.clear();
  }

  #openEnd(): number {
    if (this.#descriptorEnd === undefined) throw new Error("the other end is gone");
    return this.#descriptorEnd;
  }

  #find(token: number): number {
    const known = this.#descriptors.get(token);
    if (known !== undefined) {
      this.#descriptors.delete(token);
      return known;
    }
    for (let turn = this.#descriptors.size; turn < DESCRIPTORS_MAX; turn += 1) {
      const received = this.#receive();
      if (received.token === token) return received.fd;
      this.#keep(received);
    }
    throw toFileError(new Error("too many descriptors wait"), "recvmsg", "descriptor");
  }

  #receive(): { readonly fd: number; readonly token: number } {
    try {
      return osNative().receiveDescriptor(this.#openEnd());
    } catch (error) {
      throw toFileError(error, "recvmsg", `descriptor (${errnoOf(error) ?? "failed"})`);
    }
  }

  #keep(received: { readonly fd: number; readonly token: number }): void {
    const before = this.#descriptors.get(received.token);
    if (before !== undefined) closeSync(before);
    this.#descriptors.set(received.token, received.fd);
  }

  #read(data: Buffer): void {
    let rest = data;
    for (let end = rest.indexOf(10); end !== -1; end = rest.indexOf(10)) {
      this.#parts.push(rest.subarray(0, end));
      const line = Buffer.concat(this.#parts).toString("utf8");
      this.#parts = [];
      this.#partBytes = 0;
      rest = rest.subarray(end + 1);
      if (!this.#deliver(line)) return;
    }
    if (rest.length === 0) return;
    this.#parts.push(rest);
    this.#partBytes += rest.length;
    if (this.#partBytes > LINE_BYTES_MAX) this.#stream.destroy();
  }

  /** False when the line is no JSON: the stream is cut then. */
  #deliver(line: string): boolean {
    let message: unknown;
    try {
      message = JSON.parse(line);
    } catch {
      this.#stream.destroy();
      return false;
    }
    if (this.#listener === undefined) this.#waiting.push(message);
    else this.#listener(message);
    return true;
  }
}
