// SPDX-License-Identifier: Apache-2.0
// Who asks, as the API server tells it.
import type { IncomingMessage } from "node:http";
import type { ClientAuthority } from "@patchbay/daemon";
import { PODS, names } from "@patchbay/api";
import type { Store } from "@patchbay/core/ports";

/** A user as authentication has found them. Source: Kubernetes authentication.k8s.io/v1 UserInfo. */
export interface User {
  readonly name: string;
  readonly groups: readonly string[];
  /** Claims of a token by name, such as the pod that it is bound to; absent: there are none. */
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

// Source: Kubernetes "Configure the Aggregation Layer".

const USER_HEADER = "x-remote-user";
const GROUP_HEADER = "x-remote-group";
/** Before the name of a claim, which is encoded as in a URL. Source: Kubernetes, the default of requestheader-extra-headers-prefix. */
const EXTRA_PREFIX = "x-remote-extra-";

/** The name of a claim; undefined where it cannot be read. */
function claimIn(header: string): string | undefined {
  try {
    return decodeURIComponent(header.slice(EXTRA_PREFIX.length));
  } catch {
    return undefined;
  }
}

function extraIn(headers: IncomingMessage["headersDistinct"]): Pick<User, "extra"> {
  const claims = Object.entries(headers).flatMap(([header, values = []]) => {
    const claim = header.startsWith(EXTRA_PREFIX) ? claimIn(header) : undefined;
    return claim === undefined ? [] : [[claim, values] as const];
  });
  return claims.length === 0 ? {} : { extra: Object.fromEntries(claims) };
}

/** The user that the API server's proxy names; undefined where somebody else asks, or where nobody is named. */
export function findRemoteUser(
  frontProxy: ClientAuthority | undefined,
  request: Pick<IncomingMessage, "socket" | "headersDistinct">,
): User | undefined {
  if (frontProxy?.vouchesFor(request) !== true) return undefined;
  const { headersDistinct } = request;
  const [name = ""] = headersDistinct[USER_HEADER] ?? [];
  if (name === "") return undefined;
  return { name, groups: headersDistinct[GROUP_HEADER] ?? [], ...extraIn(headersDistinct) };
}

/** A pod that a token is bound to, as the token's claims name it. */
export interface TokenPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** Finds the node of the pod; undefined where there is no such pod, or it has no node yet. */
export type NodeOfPod = (pod: TokenPod) => Promise<string | undefined>;

/**
 * Most pods whose node is remembered; the one that was read first is forgotten first. One agent runs on each node.
 * Source: Kubernetes "Considerations for large clusters", nodes.
 */
const REMEMBERED_MAX = 5000;

/** Reads each pod once: its node never changes once it is set, and a pod of that name with another uid is another pod. */
export function askForPods(store: Store): NodeOfPod {
  const known = new Map<string, string>();
  return async ({ uid, ...key }) => {
    const remembered = known.get(uid);
    if (remembered !== undefined) return remembered;
    const pod = await store.find(PODS, key);
    const node = pod?.metadata.uid === uid ? pod.spec.nodeName : undefined;
    if (node === undefined || node === "") return undefined;
    known.set(uid, node);
    const [oldest] = known.keys();
    if (known.size > REMEMBERED_MAX && oldest !== undefined) known.delete(oldest);
    return node;
  };
}

/** The account of all agents that write the status of VMIs. */
export const AGENT: string = `${names.SERVICE_ACCOUNT_PREFIX}virt-handler`;
/** Pod that a token is bound to. Source: Kubernetes serviceaccount claims, since 1.21. */
const POD_CLAIMS = {
  name: "authentication.kubernetes.io/pod-name",
  uid: "authentication.kubernetes.io/pod-uid",
} as const;
/** Node of that pod. Source: Kubernetes ServiceAccountTokenPodNodeInfo, since 1.30: older servers name the pod only. */
const NODE_CLAIM = "authentication.kubernetes.io/node-name";

/** Where the pods of tokens are looked up. */
export interface Pods {
  readonly nodeOfPod: NodeOfPod;
}

/** Nodes that a token or groups of a certificate name. */
function namedNodes({ groups, extra }: User): readonly string[] {
  const prefix = names.NODE_GROUP_PREFIX;
  const certified = groups.filter((group) => group.startsWith(prefix));
  return [...(extra?.[NODE_CLAIM] ?? []), ...certified.map((group) => group.slice(prefix.length))];
}

/** The pod that a token names; undefined where it names none, or more than one. */
function tokenPodOf({ extra }: User): TokenPod | undefined {
  const [name, ...otherNames] = extra?.[POD_CLAIMS.name] ?? [];
  const [uid, ...otherUids] = extra?.[POD_CLAIMS.uid] ?? [];
  const isOne = otherNames.length === 0 && otherUids.length === 0;
  return name === undefined || uid === undefined || !isOne
    ? undefined
    : { namespace: names.SERVICES_NAMESPACE, name, uid };
}

/** Undefined where none or several are named, and where the pod of a token that names none has none. */
export async function nodeOfAgent(user: User, { nodeOfPod }: Pods): Promise<string | undefined> {
  const nodes = namedNodes(user);
  if (nodes.length > 0) return nodes.length === 1 ? nodes[0] : undefined;
  const pod = tokenPodOf(user);
  return pod === undefined ? undefined : nodeOfPod(pod);
}
