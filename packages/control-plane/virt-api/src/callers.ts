// SPDX-License-Identifier: Apache-2.0
// Identity of callers: users behind the API server's front proxy, and agents of nodes.
import type { IncomingMessage } from "node:http";
import type { ClientAuthority } from "@patchbay/daemon";
import { PODS, names } from "@patchbay/api";
import type { Store } from "@patchbay/core/interfaces";

/** Source: Kubernetes authentication.k8s.io/v1 UserInfo. */
export interface User {
  readonly name: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

// Source: Kubernetes "Configure the Aggregation Layer".

const USER_HEADER = "x-remote-user";
const GROUP_HEADER = "x-remote-group";
/** Prefix of claim names, which are URL-encoded. Source: Kubernetes, the default of requestheader-extra-headers-prefix. */
const EXTRA_PREFIX = "x-remote-extra-";

function parseClaimName(header: string): string | undefined {
  try {
    return decodeURIComponent(header.slice(EXTRA_PREFIX.length));
  } catch {
    return undefined;
  }
}

function parseExtra(headers: IncomingMessage["headersDistinct"]): Pick<User, "extra"> {
  const claims = Object.entries(headers).flatMap(([header, values = []]) => {
    const claim = header.startsWith(EXTRA_PREFIX) ? parseClaimName(header) : undefined;
    return claim === undefined ? [] : [[claim, values] as const];
  });
  return claims.length === 0 ? {} : { extra: Object.fromEntries(claims) };
}

/** Returns undefined if the request does not come from the front proxy, or without a user name. */
export function findRemoteUser(
  frontProxy: ClientAuthority | undefined,
  request: Pick<IncomingMessage, "socket" | "headersDistinct">,
): User | undefined {
  if (frontProxy?.vouchesFor(request) !== true) return undefined;
  const { headersDistinct } = request;
  const [name = ""] = headersDistinct[USER_HEADER] ?? [];
  if (name === "") return undefined;
  return { name, groups: headersDistinct[GROUP_HEADER] ?? [], ...parseExtra(headersDistinct) };
}

export interface TokenPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** Returns undefined if the pod does not exist or is not scheduled. */
export type FindPodNode = (pod: TokenPod) => Promise<string | undefined>;

/** Limit of cached pods, one per node; evicts the oldest. Source: Kubernetes "Considerations for large clusters", nodes. */
const CACHED_PODS_MAX = 5000;

/** Caches by uid: the node of a pod never changes, and a new pod with the same name has another uid. */
export function createPodNodeLookup(store: Store): FindPodNode {
  const nodeByUid = new Map<string, string>();
  return async ({ uid, ...key }) => {
    const cached = nodeByUid.get(uid);
    if (cached !== undefined) return cached;
    const pod = await store.find(PODS, key);
    const node = pod?.metadata.uid === uid ? pod.spec.nodeName : undefined;
    if (node === undefined || node === "") return undefined;
    nodeByUid.set(uid, node);
    const [oldest] = nodeByUid.keys();
    if (nodeByUid.size > CACHED_PODS_MAX && oldest !== undefined) nodeByUid.delete(oldest);
    return node;
  };
}

/** Account of all agents that write the status of VMIs. It is the same on all nodes, so a claim or certificate identifies the node. */
export const AGENT_ACCOUNT: string = `${names.SERVICE_ACCOUNT_PREFIX}virt-handler`;
/** Source: Kubernetes serviceaccount claims, since 1.21. */
const POD_CLAIMS = {
  name: "authentication.kubernetes.io/pod-name",
  uid: "authentication.kubernetes.io/pod-uid",
} as const;
/** Servers before 1.30 set the pod claims only. Source: Kubernetes ServiceAccountTokenPodNodeInfo, since 1.30. */
const NODE_CLAIM = "authentication.kubernetes.io/node-name";

export interface PodLookup {
  readonly findPodNode: FindPodNode;
}

function listNamedNodes({ groups, extra }: User): readonly string[] {
  const prefix = names.NODE_GROUP_PREFIX;
  const certified = groups.filter((group) => group.startsWith(prefix));
  return [...(extra?.[NODE_CLAIM] ?? []), ...certified.map((group) => group.slice(prefix.length))];
}

/** Returns undefined if the token names no pod or several. */
function findTokenPod({ extra }: User): TokenPod | undefined {
  const [name, ...otherNames] = extra?.[POD_CLAIMS.name] ?? [];
  const [uid, ...otherUids] = extra?.[POD_CLAIMS.uid] ?? [];
  const isOne = otherNames.length === 0 && otherUids.length === 0;
  return name === undefined || uid === undefined || !isOne
    ? undefined
    : { namespace: names.SERVICES_NAMESPACE, name, uid };
}

/** Returns undefined if the credentials name several nodes, or neither a node nor a scheduled pod. */
export async function findAgentNode(
  user: User,
  { findPodNode }: PodLookup,
): Promise<string | undefined> {
  const nodes = listNamedNodes(user);
  if (nodes.length > 0) return nodes.length === 1 ? nodes[0] : undefined;
  const pod = findTokenPod(user);
  return pod === undefined ? undefined : findPodNode(pod);
}
