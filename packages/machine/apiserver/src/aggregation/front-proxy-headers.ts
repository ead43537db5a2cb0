// SPDX-License-Identifier: Apache-2.0
// How an aggregated server is told who asks, and what it is not told. Source: Kubernetes "Aggregation layer".
import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import type { User } from "../auth/user.ts";
import { forwardedHeaders } from "../backend/forwarded-headers.ts";

/** Where extra information about users goes. */
export const EXTRA_PREFIX = "X-Remote-Extra-";

/** Bytes that a header's name may not have. Source: RFC 9110 5.6.2; `%` is what escapes. */
const UNSAFE_IN_NAME = /[^!#$&'*+\-.^_`|~0-9A-Za-z]/gu;

/** Header values travel as bytes. */
function asBytes(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}

function escapeName(key: string): string {
  return key.replace(UNSAFE_IN_NAME, (character) =>
    [...Buffer.from(character, "utf8")]
      .map((byte) => `%${byte.toString(16).padStart(2, "0").toUpperCase()}`)
      .join(""),
  );
}

/** The headers that say who asks. */
export function userHeaders(user: User): OutgoingHttpHeaders {
  const extra = Object.entries(user.extra ?? {}).map(
    ([key, values]) => [`${EXTRA_PREFIX}${escapeName(key)}`, values.map(asBytes)] as const,
  );
  return {
    "X-Remote-User": asBytes(user.name),
    ...(user.uid === undefined || user.uid === "" ? {} : { "X-Remote-Uid": asBytes(user.uid) }),
    ...(user.groups.length === 0 ? {} : { "X-Remote-Group": user.groups.map(asBytes) }),
    ...Object.fromEntries(extra),
  };
}

/** The headers of a request that is passed on to `host` for `user`. */
export function requestHeaders(
  request: IncomingMessage,
  user: User,
  host: string,
): OutgoingHttpHeaders {
  const { headers, socket } = request;
  const before = headers["x-forwarded-for"];
  const from = [before ?? [], socket.remoteAddress ?? []].flat().join(", ");
  return {
    ...forwardedHeaders(request, host),
    "x-forwarded-for": from,
    "x-forwarded-uri": (request.url ?? "").split("?")[0],
    ...userHeaders(user),
  };
}
