// SPDX-License-Identifier: Apache-2.0
// Lookup of NetworkAttachmentDefinitions, and permission checks for definitions of other namespaces.
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  SUBJECT_ACCESS_REVIEWS,
  names,
  type Network,
  type VmiSpec,
} from "@patchbay/api";
import type { Cause } from "@patchbay/api/kubernetes";
import { listNewClaimFields } from "@patchbay/api/validate";
import { type NadName, parseNadName } from "@patchbay/api/values";
import type { Store } from "@patchbay/core/interfaces";
import type { User } from "./http/calls.ts";
import { nearestName } from "@patchbay/base";
import type { Reader } from "@patchbay/kube";
import { findByName, networksOf } from "@patchbay/core/nics";
import type { AdmissionRequest, Verdict } from "./admission/review.ts";

export type MayReadNetwork = (user: User, nad: Required<NadName>) => Promise<boolean>;

const { group, version, resource } = NETWORK_ATTACHMENT_DEFINITIONS;

/** Returns a function that creates a SubjectAccessReview at each call. Reviews are not cached, because roles may change. */
export function createAccessReview(store: Store): MayReadNetwork {
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

/** Returns why the user may not use the network. A network of another namespace requires the right to read its definition. */
export async function findForeignNetworkProblem(
  deps: { readonly mayReadNetwork: MayReadNetwork },
  user: User,
  reference: { readonly networkName: string; readonly namespace: string },
): Promise<string | undefined> {
  const nad = parseNadName(reference.networkName);
  if (nad?.namespace === undefined || nad.namespace === reference.namespace) return undefined;
  const { namespace, name } = nad;
  if (await deps.mayReadNetwork(user, { namespace, name })) return undefined;
  return `network ${namespace}/${name} is of another namespace: User "${user.name}" cannot get resource "${resource}" in API group "${group}" in the namespace "${namespace}"`;
}

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

/** Returns the most similar network name. Searches only the VM's namespace, because users may lack permission for others. */
export function findNearestNetwork(
  { listNetworkNames }: { readonly listNetworkNames: (namespace: string) => readonly string[] },
  networkName: string,
  namespace: string,
): string | undefined {
  const nad = parseNadName(networkName);
  const isInNamespace = nad !== undefined && (nad.namespace ?? namespace) === namespace;
  return isInNamespace ? nearestName(nad.name, listNetworkNames(namespace)) : undefined;
}

export interface Specs {
  readonly spec: VmiSpec;
  readonly old: VmiSpec | undefined;
}

export function listNewNetworks({ spec, old }: Specs): readonly Network[] {
  return networksOf(spec).filter(({ name, multus }) => {
    const oldNetwork = findByName(old?.networks, name);
    return oldNetwork?.multus?.networkName !== multus?.networkName;
  });
}

/** Returns a denial if the user may not use a network that the request adds; undefined otherwise. */
export async function denyForeignNetworks(
  deps: { readonly mayReadNetwork: MayReadNetwork },
  request: AdmissionRequest,
  specs: Specs,
): Promise<Verdict | undefined> {
  const { namespace, user } = request;
  // Patchbay's services need no check: virt-api has checked the user for whom it writes, and virt-controller copies the VM's networks.
  if (user.name.startsWith(names.SERVICE_ACCOUNT_PREFIX)) return undefined;
  for (const network of listNewNetworks(specs)) {
    const networkName = network.multus?.networkName ?? "";
    const message = await findForeignNetworkProblem(deps, user, { networkName, namespace });
    if (message !== undefined) return { allowed: false, code: 403, message, causes: [] };
  }
  return undefined;
}

/** Rejects new resource claims if the cluster does not serve them, because the API server would then drop the claims from pods. */
export async function listUnservedClaimCauses(
  deps: { readonly servesResourceClaims: () => Promise<boolean> },
  { spec, old }: Specs,
  base: string,
): Promise<readonly Cause[]> {
  const fields = listNewClaimFields(old, spec, base);
  if (fields.length === 0 || (await deps.servesResourceClaims())) return [];
  const message =
    "the cluster does not serve resource claims (resource.k8s.io/v1, Kubernetes 1.34); use a network of a NetworkAttachmentDefinition";
  return fields.map((field) => ({ reason: "FieldValueNotSupported", field, message }));
}
