// SPDX-License-Identifier: Apache-2.0
// Access to the panel's port, which foreign pages, rebound host names and other users of the machine can reach too. Pure.
import { createHash, timingSafeEqual } from "node:crypto";

export interface RequestOrigin {
  readonly method: string;
  readonly host: string | undefined;
  readonly origin: string | undefined;
  /** Source: Fetch Metadata, Sec-Fetch-Site; browsers set it, pages cannot. */
  readonly site: string | undefined;
}

/** Names that every browser resolves to this machine. Source: RFC 6761 6.3 */
const NAMES = ["127.0.0.1", "localhost"];

/** Values for requests of the panel's own page and of the user; some browsers do not send the header. */
const OWN_SITES: readonly (string | undefined)[] = ["same-origin", "none", undefined];
const READ_METHODS = ["GET", "HEAD"];

/** Origins of the panel's pages at a port. */
function listOrigins(port: number): readonly string[] {
  return NAMES.map((name) => `http://${name}:${String(port)}`);
}

/** Why a request is rejected; undefined if it is allowed. Changes and streams must have an origin; a request for the page has none. */
export function findOriginProblem(
  request: RequestOrigin,
  port: number,
  isStream = false,
): string | undefined {
  const { host, origin } = request;
  if (host === undefined || !listOrigins(port).includes(`http://${host}`)) {
    return "the request names another host than the panel's own";
  }
  if (origin !== undefined && origin !== `http://${host}`) {
    return "the request comes from a page of another origin";
  }
  if (!OWN_SITES.includes(request.site)) return "the request comes from a page of another site";
  const needsOrigin = isStream || !READ_METHODS.includes(request.method);
  return needsOrigin && origin === undefined ? "the request does not say its origin" : undefined;
}

/** Minimum length of a browser's name for itself, which is a secret too. */
const BROWSER_MIN = 32;

export type RandomBytes = (count: number) => Uint8Array;

/** Bytes of a token and of a key; 32 bytes cannot be guessed. */
const BYTES = 32;

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Compares in constant time. */
function isSame(left: string, right: string | undefined): boolean {
  return right !== undefined && timingSafeEqual(digest(left), digest(right));
}

interface UsedToken {
  readonly token: string;
  readonly browser: string;
  readonly key: string;
}

/** Tokens of links. Only the newest unused link is valid; a used link stays valid for the browser that used it. */
export class LinkTokens {
  readonly #random: RandomBytes;
  #token: string | undefined;
  readonly #used: UsedToken[] = [];

  constructor(random: RandomBytes) {
    this.#random = random;
  }

  /** A new token, which invalidates the previous one if it is unused. */
  issue(): string {
    this.#token = this.#make();
    return this.#token;
  }

  /**
   * The key for a token; undefined if the token was not issued or another browser has used it. The same browser gets the same
   * key again, for example after a reload or a lost answer.
   * @param browser - secret name that the browser chose for itself
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

  knows(key: string): boolean {
    return this.#used.some((each) => isSame(key, each.key));
  }

  #make(): string {
    return Buffer.from(this.#random(BYTES)).toString("base64url");
  }
}
