// SPDX-License-Identifier: Apache-2.0
// Who may use the panel? Whoever brings the link's token, once; then who brings the key that it was exchanged for.
import { createHash, timingSafeEqual } from "node:crypto";

/** A page's own name for itself is its secret too; so many characters at least. */
const PAGE_MIN = 32;

/** Random bytes; as many as are asked for. */
export type RandomBytes = (count: number) => Uint8Array;

/** Bytes of a token and of a key: nobody guesses 32. */
const BYTES = 32;

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Equal in a time that tells nothing of where they differ. */
function isSame(left: string, right: string | undefined): boolean {
  return right !== undefined && timingSafeEqual(digest(left), digest(right));
}

/** One link at a time is good for one page; keys are kept in memory, of the page and of this process. */
export class Passes {
  readonly #random: RandomBytes;
  #token: string | undefined;
  /** The last exchange. */
  #used: { readonly token: string; readonly page: string; readonly key: string } | undefined;
  readonly #keys = new Set<string>();

  constructor(random: RandomBytes) {
    this.#random = random;
  }

  /** A new token; one that was not used is good for nothing any more. */
  issue(): string {
    this.#token = this.#make();
    return this.#token;
  }

  /**
   * The key for a token, which is used up by the page; undefined where it is not the one that was issued. A page whose answer was
   * lost gets the same key again; nobody else does.
   * @param page - what the page calls itself, which only it knows
   */
  exchange(token: string, page: string): string | undefined {
    if (page.length < PAGE_MIN) return undefined;
    const used = this.#used;
    if (used !== undefined && isSame(token, used.token) && isSame(page, used.page)) return used.key;
    if (!isSame(token, this.#token)) return undefined;
    this.#token = undefined;
    const key = this.#make();
    this.#keys.add(key);
    this.#used = { token, page, key };
    return key;
  }

  /** Whether a key was given out. */
  knows(key: string): boolean {
    return [...this.#keys].some((each) => isSame(key, each));
  }

  #make(): string {
    return Buffer.from(this.#random(BYTES)).toString("base64url");
  }
}
