// SPDX-License-Identifier: Apache-2.0
// One call of TokenRequest. Source: Kubernetes authentication.k8s.io/v1.
import { AppError } from "@patchbay/core";
import type { KubeClient } from "@patchbay/kube";
import type { RequestToken } from "./pod-tokens.ts";

interface TokenAnswer {
  readonly status?: { readonly token?: string; readonly expirationTimestamp?: string };
}

/** Asks with the node's account, for the account that the pod runs as. */
export function tokenRequester(client: Pick<KubeClient, "requestRaw">): RequestToken {
  return async ({ metadata, spec }, { audience, expirationSeconds }) => {
    const { namespace = "", name, uid } = metadata;
    const account = spec.serviceAccountName ?? "default";
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/serviceaccounts/${encodeURIComponent(account)}/token`;
    const { text } = await client.requestRaw({
      method: "POST",
      path,
      body: {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenRequest",
        spec: {
          audiences: audience === undefined || audience === "" ? [] : [audience],
          expirationSeconds,
          boundObjectRef: { apiVersion: "v1", kind: "Pod", name, uid },
        },
      },
    });
    const { status } = JSON.parse(text) as TokenAnswer; // the server keeps the kind's schema
    // oxlint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
    const expiresMs = Date.parse(status?.expirationTimestamp ?? "");
    if (status?.token === undefined || Number.isNaN(expiresMs)) {
      const reason = "it has no token or no expiration time";
      throw new AppError("API_MALFORMED", { what: "the answer to a TokenRequest", reason });
    }
    return { text: status.token, expiresMs };
  };
}
