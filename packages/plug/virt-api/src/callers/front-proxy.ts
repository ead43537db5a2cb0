// SPDX-License-Identifier: Apache-2.0
// Who asks? Only the API server may say so. Source: Kubernetes "Configure the Aggregation Layer".
import type { IncomingMessage } from "node:http";
import type { User } from "./user.ts";
import type { ClientAuthority } from "@patchbay/daemon";

const USER_HEADER = "x-remote-user";
const GROUP_HEADER = "x-remote-group";
/** Before the name of a claim, which is encoded as in a URL. Source: Kubernetes, the default of requestheader-extra-headers-prefix. */
const EXTRA_PREFIX = "x-remote-extra-";

/** The name of a claim; undefined where it cannot be read. */
function claimIn(header: string): string | undefined {
  try {
    return decodeURIComponent(header.slice(EXTRA_PREFIX.length));
  } catch {
    return undefined;
  }
}

function extraIn(headers: IncomingMessage["headersDistinct"]): Pick<User, "extra"> {
  const claims = Object.entries(headers).flatMap(([header, values = []]) => {
    const claim = header.startsWith(EXTRA_PREFIX) ? claimIn(header) : undefined;
    return claim === undefined ? [] : [[claim, values] as const];
  });
  return claims.length === 0 ? {} : { extra: Object.fromEntries(claims) };
}

/** The user that the API server's proxy names; undefined where somebody else asks, or where nobody is named. */
export function findRemoteUser(
  frontProxy: ClientAuthority | undefined,
  request: Pick<IncomingMessage, "socket" | "headersDistinct">,
): User | undefined {
  if (frontProxy?.vouchesFor(request) !== true) return undefined;
  const { headersDistinct } = request;
  const [name = ""] = headersDistinct[USER_HEADER] ?? [];
  if (name === "") return undefined;
  return { name, groups: headersDistinct[GROUP_HEADER] ?? [], ...extraIn(headersDistinct) };
}
