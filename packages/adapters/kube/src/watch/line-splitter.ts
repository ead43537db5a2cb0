// SPDX-License-Identifier: Apache-2.0
// Where do lines end in a stream of bytes? Works on bytes, so that a character cut in two is not damaged.

const NEWLINE = 0x0a;

/** Most bytes of one line; an object of etcd has at most 1.5 MiB. */
const LINE_MAX_BYTES = 32 * 1024 * 1024;

/** Collects bytes and gives whole lines. */
export class LineSplitter {
  #pending: Buffer[] = [];
  #pendingBytes = 0;

  /**
   * The lines that `chunk` completes, without newline; empty lines are left out.
   * @throws RangeError when a line is longer than 32 MiB.
   */
  push(chunk: Buffer): readonly string[] {
    const lines: string[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#keep(chunk.subarray(start, end));
      const line = this.#take();
      if (line !== "") lines.push(line);
      start = end + 1;
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start));
    return lines;
  }

  /** Whether bytes of an unfinished line are waiting. */
  get hasPending(): boolean {
    return this.#pendingBytes > 0;
  }

  #keep(bytes: Buffer): void {
    this.#pendingBytes += bytes.length;
    if (this.#pendingBytes > LINE_MAX_BYTES) throw new RangeError("a line is longer than 32 MiB");
    this.#pending.push(bytes);
  }

  #take(): string {
    const [first] = this.#pending;
    const bytes =
      this.#pending.length === 1 && first !== undefined ? first : Buffer.concat(this.#pending);
    this.#pending = [];
    this.#pendingBytes = 0;
    return bytes.toString("utf8").trimEnd();
  }
}
