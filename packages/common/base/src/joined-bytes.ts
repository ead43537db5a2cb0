// SPDX-License-Identifier: Apache-2.0

export function joinedBytes(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let offset = 0;
  for (const part of parts) {
    all.set(part, offset);
    offset += part.length;
  }
  return all;
}

/** Length below which pieces are copied into blocks, because each piece of a byte would need hundreds of bytes of memory. */
const [SMALL_LENGTH, BLOCK_LENGTH] = [512, 4096];

/** Bytes that arrive in pieces. `take` returns undefined until `count` bytes have arrived, and copies only small pieces and spans. */
export class ByteQueue {
  #pieces: Uint8Array[] = [];
  #first = 0;
  #length = 0;
  #block = new Uint8Array(0);
  #blockEnd = 0;

  get length(): number {
    return this.#length;
  }

  push(piece: Uint8Array): void {
    if (piece.length === 0) return;
    this.#length += piece.length;
    if (piece.length < SMALL_LENGTH) {
      this.#append(piece);
      return;
    }
    this.#pieces.push(piece);
    this.#block = new Uint8Array(0);
    this.#blockEnd = 0;
  }

  take(count: number): Uint8Array | undefined {
    if (count > this.#length) return undefined;
    this.#length -= count;
    const taken: Uint8Array[] = [];
    for (let remaining = count; remaining > 0;) {
      const piece = this.#pieces[this.#first] ?? new Uint8Array(remaining);
      taken.push(piece.subarray(0, remaining));
      if (piece.length > remaining) this.#pieces[this.#first] = piece.subarray(remaining);
      else this.#first += 1;
      remaining -= Math.min(remaining, piece.length);
    }
    this.#dropTaken();
    const [only = new Uint8Array(0), ...others] = taken;
    return others.length === 0 ? only : joinedBytes(taken);
  }

  #append(piece: Uint8Array): void {
    if (piece.length > this.#block.length - this.#blockEnd) {
      this.#block = new Uint8Array(BLOCK_LENGTH);
      this.#blockEnd = 0;
    }
    const isContinued = this.#blockEnd > 0 && this.#first < this.#pieces.length;
    const last = isContinued ? this.#pieces.pop() : undefined;
    const start = this.#blockEnd - (last?.length ?? 0);
    this.#block.set(piece, this.#blockEnd);
    this.#blockEnd += piece.length;
    this.#pieces.push(this.#block.subarray(start, this.#blockEnd));
  }

  #dropTaken(): void {
    if (2 * this.#first < this.#pieces.length) return;
    this.#pieces = this.#pieces.slice(this.#first);
    this.#first = 0;
  }
}
