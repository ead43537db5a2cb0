// SPDX-License-Identifier: Apache-2.0
// Authorization of metrics readers. The API server authenticates the reader by a token and checks the reader's rights.
import { createHash } from "node:crypto";
import type { ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { Clock } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";

/** Whether the holder of a token may read metrics. `unknown` means that the token is invalid. */
export type MetricsAccess = "granted" | "forbidden" | "unknown";

export type AccessCheck = (token: string) => Promise<MetricsAccess>;

/** Authentication of a token. Source: authentication.k8s.io/v1 of Kubernetes. */
interface TokenReview extends KubeObject {
  readonly spec: { readonly token: string };
  readonly status?: {
    readonly authenticated?: boolean;
    readonly user?: {
      readonly username?: string;
      readonly groups?: readonly string[];
      readonly uid?: string;
      readonly extra?: Readonly<Record<string, readonly string[]>>;
    };
  };
}

/** Authorization of a user. Source: authorization.k8s.io/v1 of Kubernetes. */
interface SubjectAccessReview extends KubeObject {
  readonly spec: object;
  readonly status?: { readonly allowed?: boolean };
}

const TOKEN_REVIEWS: ResourceType<TokenReview> = {
  group: "authentication.k8s.io",
  version: "v1",
  namespaced: false,
  resource: "tokenreviews",
  kind: "TokenReview",
};

const SUBJECT_ACCESS_REVIEWS: ResourceType<SubjectAccessReview> = {
  group: "authorization.k8s.io",
  version: "v1",
  namespaced: false,
  resource: "subjectaccessreviews",
  kind: "SubjectAccessReview",
};

/** Time for which a result is cached, in milliseconds. Collectors usually send a request every 30 s, so each review serves two requests. */
const CACHE_TTL_MS = 60_000;
const CACHE_SIZE_MAX = 64;

const NO_METADATA = { name: "" };

async function requestAccess(store: Store, token: string): Promise<MetricsAccess> {
  const tokenReview = await store.create(TOKEN_REVIEWS, {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenReview",
    metadata: NO_METADATA,
    spec: { token },
  });
  const { authenticated, user: { username, groups = [], uid, extra } = {} } =
    tokenReview.status ?? {};
  if (authenticated !== true || username === undefined) return "unknown";
  const { status } = await store.create(SUBJECT_ACCESS_REVIEWS, {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SubjectAccessReview",
    metadata: NO_METADATA,
    spec: {
      user: username,
      groups,
      uid,
      extra,
      nonResourceAttributes: { path: "/metrics", verb: "get" },
    },
  });
  return status?.allowed === true ? "granted" : "forbidden";
}

export function createAccessCheck(store: Store, clock: Clock): AccessCheck {
  const cache = new Map<string, { readonly access: MetricsAccess; readonly untilMs: number }>();
  return async (token) => {
    const nowMs = clock.monotonicMs();
    const hash = createHash("sha256").update(token).digest("hex");
    const cached = cache.get(hash);
    if (cached !== undefined && cached.untilMs > nowMs) return cached.access;
    const access = await requestAccess(store, token);
    cache.delete(hash);
    const [oldest] = cache.keys();
    if (cache.size >= CACHE_SIZE_MAX && oldest !== undefined) cache.delete(oldest);
    cache.set(hash, { access, untilMs: nowMs + CACHE_TTL_MS });
    return access;
  };
}
