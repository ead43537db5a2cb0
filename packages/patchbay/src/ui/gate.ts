// SPDX-License-Identifier: Apache-2.0
// Is a request the panel's own? A page of somebody else's, a name that was rebound to this address, and another user of
// the machine can reach the port too. Pure.

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
export function originsOf(port: number): readonly string[] {
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
