// SPDX-License-Identifier: Apache-2.0
// Which node does an agent serve? Its account is the same on all of them: a token or a certificate names the node, and no request.
import { names } from "@patchbay/api";
import type { NodeOfPod, TokenPod } from "./token-pod.ts";
import type { User } from "./user.ts";

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
