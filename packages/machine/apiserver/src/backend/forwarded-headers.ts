// SPDX-License-Identifier: Apache-2.0
// Which headers of a request and of its answer go on to the next server, and which end here?
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders } from "node:http";

/** Headers that concern one connection only. */
const HOP_BY_HOP =
  /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|http2-settings)$/;

/** Headers that only this server may set, and credentials that are meant for it. */
const OWN =
  /^(authorization|host|impersonate-.*|x-remote-(user|uid|group|extra-.*)|x-forwarded-uri)$/;

/** Headers that concern more than one connection; `Connection` may name more that do not. */
function endToEnd(headers: IncomingHttpHeaders): [string, string | string[] | undefined][] {
  const named = (headers.connection ?? "").split(",").map((name) => name.trim().toLowerCase());
  return Object.entries(headers).filter(
    ([name]) => !HOP_BY_HOP.test(name) && !named.includes(name),
  );
}

/** The headers of a request that is passed on to `host`, without what the client says of users. */
export function forwardedHeaders({ headers }: IncomingMessage, host: string): OutgoingHttpHeaders {
  const kept = endToEnd(headers).filter(([name]) => !OWN.test(name));
  return {
    ...Object.fromEntries(kept),
    ...(headers["transfer-encoding"] === undefined ? {} : { "transfer-encoding": "chunked" }),
    host,
  };
}

/** The headers of an answer that is passed back. Its trailers are announced as they were. */
export function responseHeaders(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  return {
    ...Object.fromEntries(endToEnd(headers)),
    ...(headers.trailer === undefined ? {} : { trailer: headers.trailer }),
  };
}
