// SPDX-License-Identifier: Apache-2.0
// Who may read a service's metrics on a cluster? The API server knows the bearers of tokens, and their roles.
import { createHash } from "node:crypto";
import type { KubeObject, ResourceType } from "@patchbay/api";
import type { Clock, Store } from "@patchbay/core/ports";

/** What the API server says of a token: its bearer may read the metrics, may not, or is nobody it knows. */
export type MetricsAccess = "granted" | "forbidden" | "unknown";

/** Asks for a token. */
export type AskForAccess = (token: string) => Promise<MetricsAccess>;

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

/** For how long an answer counts, milliseconds: who collects metrics asks twice a minute. */
const KEPT_MS = 60_000;
/** As many answers are kept. */
const KEPT_MAX = 64;

const NOBODY = { name: "" };

async function review(store: Store, token: string): Promise<MetricsAccess> {
  const asked = await store.create(TOKEN_REVIEWS, {
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenReview",
    metadata: NOBODY,
    spec: { token },
  });
  const { authenticated, user: { username, groups = [], uid, extra } = {} } = asked.status ?? {};
  if (authenticated !== true || username === undefined) return "unknown";
  const { status } = await store.create(SUBJECT_ACCESS_REVIEWS, {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SubjectAccessReview",
    metadata: NOBODY,
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

/** Asks the API server, and keeps its answer for a minute; tokens are not kept. */
export function askApiServerForAccess(store: Store, clock: Clock): AskForAccess {
  const kept = new Map<string, { readonly access: MetricsAccess; readonly untilMs: number }>();
  return async (token) => {
    const nowMs = clock.monotonicMs();
    const name = createHash("sha256").update(token).digest("hex");
    const known = kept.get(name);
    if (known !== undefined && known.untilMs > nowMs) return known.access;
    const access = await review(store, token);
    kept.delete(name);
    const [oldest] = kept.keys();
    if (kept.size >= KEPT_MAX && oldest !== undefined) kept.delete(oldest);
    kept.set(name, { access, untilMs: nowMs + KEPT_MS });
    return access;
  };
}
