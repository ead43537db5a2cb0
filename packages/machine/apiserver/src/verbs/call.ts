// SPDX-License-Identifier: Apache-2.0
// One request for a resource, as verbs are given it, and what they answer.
import type { Body } from "../http/body.ts";
import type { Representation } from "../http/response/accept.ts";
import type { About } from "../meta/status.ts";
import type { User } from "../auth/user.ts";
import { type Kind, bucketOf } from "../kinds/kind.ts";
import { isHeavy } from "../limits/fair-queue.ts";
import type { Fields } from "../objects/json.ts";
import type { Address, KubeObject } from "../objects/object.ts";
import type { StoredObject } from "../storage/store.ts";
import type { VerbDeps } from "./deps.ts";

/** One request for a resource. */
export interface Call {
  readonly kind: Kind;
  /** Empty: cluster-scoped, or all namespaces. */
  readonly namespace: string;
  /** Empty for collections. */
  readonly name: string;
  readonly subresource: string;
  readonly query: URLSearchParams;
  readonly body: Body;
  readonly user: User;
  readonly representation: Representation;
  /** Shown to the client as Warning headers; verbs add to it. */
  readonly warnings: string[];
}

/** One object in an answer: text where nothing has to be changed. */
export type Shown = StoredObject | KubeObject;

/** What a verb answers. */
export type Reply =
  | { readonly type: "object"; readonly code: number; readonly object: Shown }
  | { readonly type: "fields"; readonly code: number; readonly fields: Fields }
  | {
      readonly type: "list";
      readonly items: readonly StoredObject[];
      readonly revision: number;
      readonly continueToken?: string;
      readonly remaining?: number;
    };

/** What a refusal of this call is about. */
export function aboutOf(kind: Kind): About {
  return { group: kind.group, resource: kind.resource, kind: kind.kind };
}

/** Where the object of a call lives. */
export function addressOf(call: Pick<Call, "kind" | "namespace" | "name">): Address {
  return { bucket: bucketOf(call.kind), namespace: call.namespace, name: call.name };
}

/** Whether everything is to be tried and nothing to be kept. */
export function isDryRun(query: URLSearchParams): boolean {
  return query.getAll("dryRun").includes("All");
}

/** Comes to an end at once for small objects; work on a large one waits for its turn, so that others are served meanwhile. */
export async function queueIfHeavy(
  call: Pick<Call, "user">,
  deps: Pick<VerbDeps, "fairQueue">,
  length: number,
): Promise<void> {
  if (isHeavy(length)) {
    await deps.fairQueue.take(call.user.name);
  }
}
