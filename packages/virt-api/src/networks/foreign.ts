// SPDX-License-Identifier: Apache-2.0
// May somebody use a network of another namespace? Whoever may read its definition.
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  parseNadName,
  type KubeObject,
  type ResourceType,
} from "@patchbay/api";
import type { Store } from "@patchbay/ports";
import type { Deps, MayReadNetwork, User } from "../routes/call.ts";

/** A question to the API server. Source: Kubernetes authorization.k8s.io/v1 SubjectAccessReview. */
interface SubjectAccessReview extends KubeObject {
  readonly spec: {
    readonly user: string;
    readonly groups: readonly string[];
    readonly resourceAttributes: Readonly<Record<string, string>>;
  };
  readonly status?: { readonly allowed?: boolean };
}

const SUBJECT_ACCESS_REVIEWS: ResourceType<SubjectAccessReview> = {
  group: "authorization.k8s.io",
  version: "v1",
  resource: "subjectaccessreviews",
  kind: "SubjectAccessReview",
  namespaced: false,
};

const { group, version, resource } = NETWORK_ATTACHMENT_DEFINITIONS;

/** Asks the API server, which knows the roles. */
export function askApiServer(store: Store): MayReadNetwork {
  return async (user, nad) => {
    const { status } = await store.create(SUBJECT_ACCESS_REVIEWS, {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SubjectAccessReview",
      metadata: { name: "" },
      spec: {
        user: user.name,
        groups: user.groups,
        resourceAttributes: { verb: "get", group, version, resource, ...nad },
      },
    });
    return status?.allowed === true;
  };
}

/**
 * Why the user may not use the network, as a sentence. Undefined where they may, and for a network of the VM's own
 * namespace, which whoever may change the VM may use.
 * @throws AppError with what the API server's answer is, when it cannot be asked
 */
export async function foreignNetworkProblem(
  deps: Pick<Deps, "mayReadNetwork">,
  user: User,
  asked: { readonly networkName: string; readonly namespace: string },
): Promise<string | undefined> {
  const nad = parseNadName(asked.networkName);
  if (nad?.namespace === undefined || nad.namespace === asked.namespace) return undefined;
  const { namespace, name } = nad;
  if (await deps.mayReadNetwork(user, { namespace, name })) return undefined;
  return `network ${namespace}/${name} is of another namespace: User "${user.name}" cannot get resource "${resource}" in API group "${group}" in the namespace "${namespace}"`;
}
