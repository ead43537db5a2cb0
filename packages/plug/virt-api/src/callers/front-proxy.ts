// SPDX-License-Identifier: Apache-2.0
// Who asks? Only the API server may say so. Source: Kubernetes "Configure the Aggregation Layer".
import type { IncomingMessage } from "node:http";
import type { User } from "./user.ts";
import type { ClientAuthority } from "@patchbay/daemon";

const USER_HEADER = "x-remote-user";
const GROUP_HEADER = "x-remote-group";

/** The user that the API server's proxy names; undefined where somebody else asks, or where nobody is named. */
export function findRemoteUser(
  frontProxy: ClientAuthority | undefined,
  request: Pick<IncomingMessage, "socket" | "headersDistinct">,
): User | undefined {
  if (frontProxy?.vouchesFor(request) !== true) return undefined;
  const { headersDistinct } = request;
  const [name = ""] = headersDistinct[USER_HEADER] ?? [];
  return name === "" ? undefined : { name, groups: headersDistinct[GROUP_HEADER] ?? [] };
}
