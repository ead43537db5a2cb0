// SPDX-License-Identifier: Apache-2.0
// Authorizes readers of metrics by token: the API server authenticates the bearer and checks its roles.
import { createHash } from "node:crypto";
import type { KubeObject, ResourceType } from "@patchbay/api";
import type { Clock } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";

/** `unknown`: the token is invalid. */
export type MetricsAccess = "granted" | "forbidden" | "unknown";

export type AccessCheck = (token: string) => Promise<MetricsAccess>;

/** Source: Kubernetes authentication.k8s.io/v1 */
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

/** Source: Kubernetes authorization.k8s.io/v1 */
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

/** Milliseconds that a result is cached; collectors request metrics about twice a minute. */
const CACHE_TTL_MS = 60_000;
const CACHE_SIZE_MAX = 64;

const NO_METADATA = { name: "" };

async function review(store: Store, token: string): Promise<MetricsAccess> {
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

/** Queries the API server and caches results by a hash of the token. */
export function createAccessCheck(store: Store, clock: Clock): AccessCheck {
  const cache = new Map<string, { readonly access: MetricsAccess; readonly untilMs: number }>();
  return async (token) => {
    const nowMs = clock.monotonicMs();
    const name = createHash("sha256").update(token).digest("hex");
    const known = cache.get(name);
    if (known !== undefined && known.untilMs > nowMs) return known.access;
    const access = await review(store, token);
    cache.delete(name);
    const [oldest] = cache.keys();
    if (cache.size >= CACHE_SIZE_MAX && oldest !== undefined) cache.delete(oldest);
    cache.set(name, { access, untilMs: nowMs + CACHE_TTL_MS });
    return access;
  };
}
