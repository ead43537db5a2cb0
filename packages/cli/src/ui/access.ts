// SPDX-License-Identifier: Apache-2.0
// Checks access to the panel's port, which foreign pages and other users of the machine can also reach.
import { createHash, timingSafeEqual } from "node:crypto";

export interface RequestOrigin {
  readonly method: string;
  readonly host: string | undefined;
  readonly origin: string | undefined;
  /** Value of the header Sec-Fetch-Site. Browsers set the header, and pages cannot change it. Source: Fetch Metadata */
  readonly site: string | undefined;
}

/** Host names that every browser resolves to this machine. Source: RFC 6761 6.3 */
const NAMES = ["127.0.0.1", "localhost"];

/** Accepted values of Sec-Fetch-Site. `none` means that the user opened the URL. Some browsers do not send the header. */
const OWN_SITES: readonly (string | undefined)[] = ["same-origin", "none", undefined];
const READ_METHODS = ["GET", "HEAD"];

function listOrigins(port: number): readonly string[] {
  return NAMES.map((name) => `http://${name}:${String(port)}`);
}

/** Returns why a request is rejected; undefined if it is allowed. Only GET and HEAD requests that open no stream may lack an origin. */
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

/** Minimum length, in characters, of the random secret by which a browser identifies itself. */
const BROWSER_NAME_MIN = 32;

export type RandomBytes = (count: number) => Uint8Array;

const SECRET_BYTES = 32;

function hash(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Compares strings in constant time, so that the duration reveals nothing about a secret. */
function isSame(left: string, right: string | undefined): boolean {
  return right !== undefined && timingSafeEqual(hash(left), hash(right));
}

interface UsedToken {
  readonly token: string;
  readonly browser: string;
  readonly key: string;
}

/** Tokens in the links to the panel. Only the newest unused token is valid. A used token stays valid for the browser that used it. */
export class LinkTokens {
  readonly #random: RandomBytes;
  #token: string | undefined;
  readonly #used: UsedToken[] = [];

  constructor(random: RandomBytes) {
    this.#random = random;
  }

  /** Creates a token, and invalidates the previous token if no browser has used it. */
  issue(): string {
    this.#token = this.#make();
    return this.#token;
  }

  /**
   * Returns the key for a token. Repeated calls of one browser return the same key. Returns undefined if the token is
   * unknown, was invalidated or was used by another browser, or if `browser` is too short.
   * @param browser - secret name that the browser has chosen
   */
  exchange(token: string, browser: string): string | undefined {
    if (browser.length < BROWSER_NAME_MIN) return undefined;
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

  isIssuedKey(key: string): boolean {
    return this.#used.some((each) => isSame(key, each.key));
  }

  #make(): string {
    return Buffer.from(this.#random(SECRET_BYTES)).toString("base64url");
  }
}
