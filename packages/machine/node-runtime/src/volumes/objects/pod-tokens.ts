// SPDX-License-Identifier: Apache-2.0
// Tokens of pods: asked for, kept in memory, and asked for again before they end.
import type { Pod } from "@patchbay/api";
import { messageOf } from "@patchbay/core";
import type { Clock, Logger } from "@patchbay/core/ports";
import type { TokenSource } from "../content/references.ts";

/** A token as the API server gave it out. */
export interface Token {
  readonly text: string;
  /** Milliseconds since 1970. */
  readonly expiresMs: number;
}

/** Asks for a token of the pod's account that is worth nothing once the pod is gone. */
export type RequestToken = (
  pod: Pod,
  source: Required<Pick<TokenSource, "expirationSeconds">> & Pick<TokenSource, "audience">,
) => Promise<Token>;

/** The tokens of this node's pods. */
export interface PodTokens {
  /** The token, which is good for at least a fifth of its life but where the API server gives out no new one. */
  find(pod: Pod, source: TokenSource): Promise<string>;
  /** When the next of the pod's tokens is to be replaced, milliseconds from now; undefined: it has none. */
  dueMs(uid: string): number | undefined;
  forget(uid: string): void;
}

/** Source: core/v1 ServiceAccountTokenProjection. */
const DEFAULT_SECONDS = 3600;
/** A token is replaced after four fifths of its life, or a day. Source: Kubernetes token_manager.go. */
const REPLACED_AFTER = 0.8;
const DAY_MS = 24 * 60 * 60 * 1000;
/** How soon a token that could not be replaced is asked for again. */
const RETRY_MS = 10_000;

interface Kept extends Token {
  replaceMs: number;
}

/** When a token is replaced that was given out at `nowMs`. Pure. */
export function replaceAtMs(token: Token, nowMs: number): number {
  return nowMs + Math.min((token.expiresMs - nowMs) * REPLACED_AFTER, DAY_MS);
}

class RequestedTokens implements PodTokens {
  readonly #request: RequestToken;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #kept = new Map<string, Map<string, Kept>>();

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
    const ofPod = this.#kept.get(uid) ?? new Map<string, Kept>();
    const key = JSON.stringify([audience, expirationSeconds]);
    const kept = ofPod.get(key);
    const now = this.#clock.now();
    if (kept !== undefined && now < kept.replaceMs) return kept.text;
    try {
      const asked = { expirationSeconds, ...(audience !== undefined && { audience }) };
      const token = await this.#request(pod, asked);
      this.#kept.set(uid, ofPod.set(key, { ...token, replaceMs: replaceAtMs(token, now) }));
      return token.text;
    } catch (error) {
      if (kept === undefined || now >= kept.expiresMs) throw error;
      kept.replaceMs = now + RETRY_MS;
      this.#log.warn("token not replaced", { uid, reason: messageOf(error) });
      return kept.text;
    }
  }

  dueMs(uid: string): number | undefined {
    const times = [...(this.#kept.get(uid)?.values() ?? [])].map(({ replaceMs }) => replaceMs);
    return times.length === 0 ? undefined : Math.max(Math.min(...times) - this.#clock.now(), 0);
  }

  forget(uid: string): void {
    this.#kept.delete(uid);
  }
}

/** Keeps no token yet. */
export function createPodTokens(
  request: RequestToken,
  deps: { readonly clock: Clock; readonly log: Logger },
): PodTokens {
  return new RequestedTokens(request, deps);
}
