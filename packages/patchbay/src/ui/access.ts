// SPDX-License-Identifier: Apache-2.0
// Is a request the panel's own? A page of somebody else's, a name that was rebound to this address, and another user of
// the machine can reach the port too. Pure.
import { createHash, timingSafeEqual } from "node:crypto";

/** What a request says of where it comes from. */
export interface Knock {
  readonly method: string;
  readonly host: string | undefined;
  readonly origin: string | undefined;
  /** Source: Fetch Metadata, Sec-Fetch-Site; browsers set it, pages cannot. */
  readonly site: string | undefined;
}

/** Names of this machine that lead to itself in every browser. Source: RFC 6761 6.3 */
const NAMES = ["127.0.0.1", "localhost"];

/** Where a request of the panel's own page comes from, or of a person; some browsers do not say it. */
const SITES: readonly (string | undefined)[] = ["same-origin", "none", undefined];
/** Methods that change nothing. */
const READING = ["GET", "HEAD"];

/** Addresses of pages that the panel serves at a port. */
function originsOf(port: number): readonly string[] {
  return NAMES.map((name) => `http://${name}:${String(port)}`);
}

/**
 * Why a request is refused, in words; undefined: it may go on. What changes something, and what becomes a stream, must say
 * its origin; a page that is opened says none.
 */
export function knockProblem(knock: Knock, port: number, isStream = false): string | undefined {
  const { host, origin } = knock;
  if (host === undefined || !originsOf(port).includes(`http://${host}`)) {
    return "the request names another host than the panel's own";
  }
  if (origin !== undefined && origin !== `http://${host}`) {
    return "the request comes from a page of another origin";
  }
  if (!SITES.includes(knock.site)) return "the request comes from a page of another site";
  const mustSay = isStream || !READING.includes(knock.method);
  return mustSay && origin === undefined ? "the request does not say its origin" : undefined;
}

/** A browser's name for itself is a secret too. Characters, at least. */
const BROWSER_MIN = 32;

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

/** A token that was exchanged. */
interface UsedToken {
  readonly token: string;
  readonly browser: string;
  readonly key: string;
}

/** One link at a time is open to anyone who has it. A used link stays good for the browser that used it. */
export class Passes {
  readonly #random: RandomBytes;
  #token: string | undefined;
  /** As many as a person has made links for. */
  readonly #used: UsedToken[] = [];

  constructor(random: RandomBytes) {
    this.#random = random;
  }

  /** A new token; one that was not used is good for nothing any more. */
  issue(): string {
    this.#token = this.#make();
    return this.#token;
  }

  /**
   * The key for a token; undefined where the token was not issued, or another browser has used it. A browser that has used it
   * gets the same key again: when its page is loaded again, and when an answer was lost.
   * @param browser - what the browser calls itself, which only it knows
   */
  exchange(token: string, browser: string): string | undefined {
    if (browser.length < BROWSER_MIN) return undefined;
    const used = this.#used.find(
      (each) => isSame(token, each.token) && isSame(browser, each.browser),
    );
    if (used !== undefined) return used.key;
    if (!isSame(token, this.#token)) return undefined;
    this.#token = undefined;
    const key = this.#make();
    this.#used.push({ token, browser, key });
    return key;
  }

  /** Whether a key was given out. */
  knows(key: string): boolean {
    return this.#used.some((each) => isSame(key, each.key));
  }

  #make(): string {
    return Buffer.from(this.#random(BYTES)).toString("base64url");
  }
}
