// SPDX-License-Identifier: Apache-2.0
// Headers that identify users to extension API servers, and the ConfigMap that lets these servers verify the headers.
import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import type { User } from "../auth/user.ts";
import { forwardedHeaders } from "../backend/forward-request.ts";
import { CONFIG_MAP } from "../kinds/config/config-map.ts";
import { apiVersionOf, bucketOf } from "../kinds/kind.ts";
import { equalJson } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { VerbDeps } from "../verbs/deps.ts";

const EXTRA_PREFIX = "X-Remote-Extra-";

/** Characters to escape in header names, including the escape character `%`. Source: RFC 9110 section 5.6.2. */
const UNSAFE_IN_NAME = /[^!#$&'*+\-.^_`|~0-9A-Za-z]/gu;

/** Encodes a header value for Node.js, which expects one character for each UTF-8 byte. */
function toHeaderValue(text: string): string {
  return Buffer.from(text, "utf8").toString("latin1");
}

function escapeName(key: string): string {
  return key.replace(UNSAFE_IN_NAME, (character) =>
    [...Buffer.from(character, "utf8")]
      .map((byte) => `%${byte.toString(16).padStart(2, "0").toUpperCase()}`)
      .join(""),
  );
}

export function userHeaders(user: User): OutgoingHttpHeaders {
  const extra = Object.entries(user.extra ?? {}).map(
    ([key, values]) => [`${EXTRA_PREFIX}${escapeName(key)}`, values.map(toHeaderValue)] as const,
  );
  return {
    "X-Remote-User": toHeaderValue(user.name),
    ...(user.uid === undefined || user.uid === ""
      ? {}
      : { "X-Remote-Uid": toHeaderValue(user.uid) }),
    ...(user.groups.length === 0 ? {} : { "X-Remote-Group": user.groups.map(toHeaderValue) }),
    ...Object.fromEntries(extra),
  };
}

/** Builds the headers of a proxied request. Source: Kubernetes "Aggregation layer". */
export function requestHeaders(
  request: IncomingMessage,
  user: User,
  host: string,
): OutgoingHttpHeaders {
  const { headers, socket } = request;
  const previousAddresses = headers["x-forwarded-for"];
  const forwardedFor = [previousAddresses ?? [], socket.remoteAddress ?? []].flat().join(", ");
  return {
    ...forwardedHeaders(request, host),
    "x-forwarded-for": forwardedFor,
    "x-forwarded-uri": (request.url ?? "").split("?")[0],
    ...userHeaders(user),
  };
}

interface FrontProxyConfig {
  readonly clientCaPem: string;
  readonly frontProxyCaPem: string;
  readonly frontProxyName: string;
}

const CONFIG_MAP_NAME = "extension-apiserver-authentication";

function toConfigMapData(config: FrontProxyConfig): Record<string, string> {
  return {
    "client-ca-file": config.clientCaPem,
    "requestheader-allowed-names": JSON.stringify([config.frontProxyName]),
    "requestheader-client-ca-file": config.frontProxyCaPem,
    "requestheader-extra-headers-prefix": JSON.stringify([EXTRA_PREFIX]),
    "requestheader-group-headers": JSON.stringify(["X-Remote-Group"]),
    "requestheader-uid-headers": JSON.stringify(["X-Remote-Uid"]),
    "requestheader-username-headers": JSON.stringify(["X-Remote-User"]),
  };
}

export async function writeAuthenticationConfig(
  deps: VerbDeps,
  config: FrontProxyConfig,
): Promise<void> {
  const address = { bucket: bucketOf(CONFIG_MAP), namespace: "kube-system", name: CONFIG_MAP_NAME };
  const data = toConfigMapData(config);
  await deps.store.write((transaction) => {
    const stored = transaction.find(address);
    if (stored === undefined) {
      const object: KubeObject = {
        apiVersion: apiVersionOf(CONFIG_MAP),
        kind: CONFIG_MAP.kind,
        metadata: {
          name: CONFIG_MAP_NAME,
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
