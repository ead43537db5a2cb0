// SPDX-License-Identifier: Apache-2.0
// May a user read a network's definition? The API server knows.
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  type KubeObject,
  type NadName,
  type ResourceType,
  parseNadName,
} from "@patchbay/api";
import type { Store } from "@patchbay/core/ports";
import type { User } from "./callers.ts";
import type { Deps } from "./deps.ts";
import { nearestName } from "@patchbay/core";
import type { Reader } from "@patchbay/kube";

/** Answers whether the user may read the definition. */
export type MayReadNetwork = (user: User, nad: Required<NadName>) => Promise<boolean>;

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

/** Asks the API server each time: it knows the roles, and they change. */
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

/** Whether the definition is there; a name that cannot be one names none. */
export async function hasNad(
  reader: Reader,
  networkName: string,
  namespace: string,
): Promise<boolean> {
  const nad = parseNadName(networkName);
  if (nad === undefined) return false;
  const key = { namespace: nad.namespace ?? namespace, name: nad.name };
  return (await reader.find(NETWORK_ATTACHMENT_DEFINITIONS, key)) !== undefined;
}

/**
 * The name in the namespace of the VM that was probably meant. Names of other namespaces are not given away: the caller may
 * read none of them.
 */
export function nearestNetwork(
  { listNetworkNames }: Pick<Deps, "listNetworkNames">,
  networkName: string,
  namespace: string,
): string | undefined {
  const nad = parseNadName(networkName);
  const isOwn = nad !== undefined && (nad.namespace ?? namespace) === namespace;
  return isOwn ? nearestName(nad.name, listNetworkNames(namespace)) : undefined;
}
