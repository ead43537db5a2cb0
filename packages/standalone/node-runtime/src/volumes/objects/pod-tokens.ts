// SPDX-License-Identifier: Apache-2.0
// Requests service account tokens for pods, caches them in memory and replaces them before they expire.
import type { Pod } from "@patchbay/api/kubernetes";
import { messageOf, AppError, type Clock, type Logger } from "@patchbay/base";

import type { TokenSource } from "../content/references.ts";
import type { KubeClient } from "@patchbay/kube";

interface Token {
  readonly text: string;
  readonly expiresMs: number;
}

/** Requests a token that is bound to the pod, so that deleting the pod invalidates the token. */
export type RequestToken = (
  pod: Pod,
  source: Required<Pick<TokenSource, "expirationSeconds">> & Pick<TokenSource, "audience">,
) => Promise<Token>;

export interface PodTokens {
  /** Requests a new token if the cached token is due for replacement. If the request fails, returns the cached token while it is valid. */
  find(pod: Pod, source: TokenSource): Promise<string>;
  /** Returns the time until a token of the pod must be replaced; undefined if the pod has no tokens. */
  dueMs(uid: string): number | undefined;
  forget(uid: string): void;
}

/** Default lifetime of a token. Source: ServiceAccountTokenProjection of core/v1. */
const DEFAULT_SECONDS = 3600;
/** A token is replaced after this share of its lifetime, but after a day at the latest. Source: token_manager.go of Kubernetes. */
const REPLACEMENT_SHARE = 0.8;
const DAY_MS = 24 * 60 * 60 * 1000;
const TOKEN_RETRY_INTERVAL_MS = 10_000;

interface CachedToken extends Token {
  replaceMs: number;
}

export function computeReplacementMs(token: Token, nowMs: number): number {
  return nowMs + Math.min((token.expiresMs - nowMs) * REPLACEMENT_SHARE, DAY_MS);
}

class RequestedTokens implements PodTokens {
  readonly #request: RequestToken;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #tokens = new Map<string, Map<string, CachedToken>>();

  constructor(
    request: RequestToken,
    { clock, log }: { readonly clock: Clock; readonly log: Logger },
  ) {
    this.#request = request;
    this.#clock = clock;
    this.#log = log;
  }

  async find(
    pod: Pod,
    { audience, expirationSeconds = DEFAULT_SECONDS }: TokenSource,
  ): Promise<string> {
    const uid = pod.metadata.uid ?? "";
    const podTokens = this.#tokens.get(uid) ?? new Map<string, CachedToken>();
    const key = JSON.stringify([audience, expirationSeconds]);
    const cached = podTokens.get(key);
    const nowMs = this.#clock.now();
    if (cached !== undefined && nowMs < cached.replaceMs) return cached.text;
    try {
      const tokenSpec = { expirationSeconds, ...(audience !== undefined && { audience }) };
      const token = await this.#request(pod, tokenSpec);
      this.#tokens.set(
        uid,
        podTokens.set(key, { ...token, replaceMs: computeReplacementMs(token, nowMs) }),
      );
      return token.text;
    } catch (error) {
      if (cached === undefined || nowMs >= cached.expiresMs) throw error;
      cached.replaceMs = nowMs + TOKEN_RETRY_INTERVAL_MS;
      this.#log.warn("token not replaced", { uid, reason: messageOf(error) });
      return cached.text;
    }
  }

  dueMs(uid: string): number | undefined {
    const replacementTimes = [...(this.#tokens.get(uid)?.values() ?? [])].map(
      ({ replaceMs }) => replaceMs,
    );
    return replacementTimes.length === 0
      ? undefined
      : Math.max(Math.min(...replacementTimes) - this.#clock.now(), 0);
  }

  forget(uid: string): void {
    this.#tokens.delete(uid);
  }
}

export function createPodTokens(
  request: RequestToken,
  deps: { readonly clock: Clock; readonly log: Logger },
): PodTokens {
  return new RequestedTokens(request, deps);
}

interface TokenResponse {
  readonly status?: { readonly token?: string; readonly expirationTimestamp?: string };
}

/** Returns a function that requests tokens with the node's account. Source: authentication.k8s.io/v1 of Kubernetes. */
export function createTokenRequester(client: Pick<KubeClient, "requestRaw">): RequestToken {
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
    const { status } = JSON.parse(text) as TokenResponse; // The cast is safe, because the API server returns a TokenRequest.
    // oxlint-disable-next-line no-restricted-globals -- converts a given time, reads no clock
    const expiresMs = Date.parse(status?.expirationTimestamp ?? "");
    if (status?.token === undefined || Number.isNaN(expiresMs)) {
      const reason = "it has no token or no expiration time";
      throw new AppError("API_MALFORMED", { what: "the response to a TokenRequest", reason });
    }
    return { text: status.token, expiresMs };
  };
}
