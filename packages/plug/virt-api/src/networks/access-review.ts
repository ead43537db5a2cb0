// SPDX-License-Identifier: Apache-2.0
// May a user read a network's definition? The API server knows.
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  type KubeObject,
  type NadName,
  type ResourceType,
} from "@patchbay/api";
import type { Store } from "@patchbay/core/ports";
import type { User } from "../callers/user.ts";

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
