// SPDX-License-Identifier: Apache-2.0
// Channel between parent and child: JSON messages, one per line, and a separate socket for descriptors.
import { closeSync } from "node:fs";
import type { Socket } from "node:net";
import { AppError } from "@patchbay/base";
import type { ChildChannel, ClaimedDescriptor } from "@patchbay/core/interfaces";
import { errnoOf, toFileError } from "../files/file-errors.ts";
import { osNative } from "../native.ts";

/** Maximum length of a message, in bytes. A peer that sends a longer message is disconnected. */
const LINE_BYTES_MAX = 8 * 1024 * 1024;

/** Maximum size of unsent messages, in bytes. A peer that reads too slowly is disconnected. */
const UNSENT_BYTES_MAX = 64 * 1024 * 1024;

/** Maximum number of received descriptors that the process has not claimed yet. */
const DESCRIPTORS_MAX = 64;

export class JsonChannel implements ChildChannel {
  readonly #stream: Socket;
  /** Descriptor of the socket that transfers descriptors. Undefined after it is closed, because the kernel may reuse the number. */
  #descriptorEnd: number | undefined;
  readonly #queued: unknown[] = [];
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
    // Ignores errors, because the creator of the stream handles the "close" event that follows each error.
    stream.on("error", () => undefined);
  }

  send(message: unknown): void {
    if (this.#stream.writableLength > UNSENT_BYTES_MAX) this.#stream.destroy();
    const line = `${JSON.stringify(message)}\n`;
    const bytes = Buffer.byteLength(line);
    if (bytes > LINE_BYTES_MAX) {
      throw new AppError("OS_MESSAGE_TOO_LONG", { bytes, bytesMax: LINE_BYTES_MAX });
    }
    if (this.#stream.writable) this.#stream.write(line);
  }

  onMessage(listener: (message: unknown) => void): void {
    this.#listener = listener;
    // A listener that pauses the channel or replaces itself must receive no further message.
    while (this.#listener === listener && this.#queued.length > 0) {
      listener(this.#queued.shift());
    }
    if (this.#listener === listener) this.#stream.resume();
  }

  pause(): void {
    this.#listener = undefined;
    this.#stream.pause();
  }

  sendDescriptor(fd: number, token: number): void {
    try {
      osNative().sendDescriptor(this.#requireEnd(), fd, token);
    } catch (error) {
      throw toFileError(error, "sendmsg", "descriptor");
    }
  }

  claimDescriptor(token: number): ClaimedDescriptor {
    const fd = this.#receiveToken(token);
    return {
      fd,
      close: () => {
        closeSync(fd);
      },
    };
  }

  /** Closes the descriptor socket and all unclaimed descriptors. Idempotent. */
  closeDescriptors(): void {
    if (this.#descriptorEnd !== undefined) closeSync(this.#descriptorEnd);
    this.#descriptorEnd = undefined;
    for (const fd of this.#descriptors.values()) closeSync(fd);
    this.#descriptors.clear();
  }

  #requireEnd(): number {
    if (this.#descriptorEnd === undefined) throw new Error("the other end is gone");
    return this.#descriptorEnd;
  }

  #receiveToken(token: number): number {
    const claimedFd = this.#descriptors.get(token);
    if (claimedFd !== undefined) {
      this.#descriptors.delete(token);
      return claimedFd;
    }
    for (let count = this.#descriptors.size; count < DESCRIPTORS_MAX; count += 1) {
      const received = this.#receive();
      if (received.token === token) return received.fd;
      this.#store(received);
    }
    throw toFileError(new Error("too many descriptors wait"), "recvmsg", "descriptor");
  }

  #receive(): { readonly fd: number; readonly token: number } {
    try {
      return osNative().receiveDescriptor(this.#requireEnd());
    } catch (error) {
      throw toFileError(error, "recvmsg", `descriptor (${errnoOf(error) ?? "failed"})`);
    }
  }

  #store(received: { readonly fd: number; readonly token: number }): void {
    const replacedFd = this.#descriptors.get(received.token);
    if (replacedFd !== undefined) closeSync(replacedFd);
    this.#descriptors.set(received.token, received.fd);
  }

  #read(data: Buffer): void {
    let remaining = data;
    for (let end = remaining.indexOf(10); end !== -1; end = remaining.indexOf(10)) {
      this.#parts.push(remaining.subarray(0, end));
      const line = Buffer.concat(this.#parts).toString("utf8");
      this.#parts = [];
      this.#partBytes = 0;
      remaining = remaining.subarray(end + 1);
      if (!this.#deliver(line)) return;
    }
    if (remaining.length === 0) return;
    this.#parts.push(remaining);
    this.#partBytes += remaining.length;
    if (this.#partBytes > LINE_BYTES_MAX) this.#stream.destroy();
  }

  #deliver(line: string): boolean {
    let message: unknown;
    try {
      message = JSON.parse(line);
    } catch {
      this.#stream.destroy();
      return false;
    }
    if (this.#listener === undefined) this.#queued.push(message);
    else this.#listener(message);
    return true;
  }
}
