// SPDX-License-Identifier: Apache-2.0
// Front proxy authentication: headers with the user, and the ConfigMap that makes servers trust them. Source: Kubernetes "Aggregation layer".
import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import type { User } from "../auth/user.ts";
import { forwardedHeaders } from "../backend/forward-request.ts";
import { CONFIG_MAP } from "../kinds/config/config-map.ts";
import { apiVersionOf, bucketOf } from "../kinds/kind.ts";
import { equalJson } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { VerbDeps } from "../verbs/deps.ts";

/** Where extra information about users goes. */
const EXTRA_PREFIX = "X-Remote-Extra-";

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

/** Whom aggregated servers may believe. */
interface ProxyTrust {
  /** Authority of client certificates. */
  readonly clientCaPem: string;
  /** Authority of the front proxy's certificate. */
  readonly frontProxyCaPem: string;
  /** CN of the front proxy's certificate. */
  readonly frontProxyName: string;
}

const NAME = "extension-apiserver-authentication";

function dataOf(trust: ProxyTrust): Record<string, string> {
  return {
    "client-ca-file": trust.clientCaPem,
    "requestheader-allowed-names": JSON.stringify([trust.frontProxyName]),
    "requestheader-client-ca-file": trust.frontProxyCaPem,
    "requestheader-extra-headers-prefix": JSON.stringify([EXTRA_PREFIX]),
    "requestheader-group-headers": JSON.stringify(["X-Remote-Group"]),
    "requestheader-uid-headers": JSON.stringify(["X-Remote-Uid"]),
    "requestheader-username-headers": JSON.stringify(["X-Remote-User"]),
  };
}

/** Writes the ConfigMap where it is missing or says something else. */
export async function keepAuthenticationConfig(deps: VerbDeps, trust: ProxyTrust): Promise<void> {
  const address = { bucket: bucketOf(CONFIG_MAP), namespace: "kube-system", name: NAME };
  const data = dataOf(trust);
  await deps.store.write((transaction) => {
    const stored = transaction.find(address);
    if (stored === undefined) {
      const object: KubeObject = {
        apiVersion: apiVersionOf(CONFIG_MAP),
        kind: CONFIG_MAP.kind,
        metadata: {
          name: NAME,
          namespace: "kube-system",
          uid: deps.random.uid(),
          creationTimestamp: rfc3339(deps.clock.now()),
        },
        data,
      };
      transaction.put(address, object);
    } else if (!equalJson(stored.view()["data"], data)) {
      transaction.put(address, { ...stored.copy(), data });
    }
  });
}
