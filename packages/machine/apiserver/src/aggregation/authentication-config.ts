// SPDX-License-Identifier: Apache-2.0
// Tells aggregated servers how to know this server's front proxy: ConfigMap extension-apiserver-authentication.
import { CONFIG_MAP } from "../kinds/config/config-map.ts";
import { apiVersionOf, bucketOf } from "../kinds/kind.ts";
import { equalJson } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { EXTRA_PREFIX } from "./front-proxy-headers.ts";

/** Whom aggregated servers may believe. */
export interface ProxyTrust {
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
