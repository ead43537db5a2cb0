// SPDX-License-Identifier: Apache-2.0
import type { CancelSignal } from "@patchbay/base";
import type { Body } from "../http/body.ts";
import type { Representation } from "../http/response/accept.ts";
import type { ResourceRef } from "../meta/status.ts";
import type { User } from "../auth/user.ts";
import { type Kind, bucketOf } from "../kinds/kind.ts";
import { isHeavy } from "../limits/fair-queue.ts";
import type { Fields } from "../objects/json.ts";
import type { Address, KubeObject } from "../objects/object.ts";
import type { StoredObject } from "../storage/store.ts";
import type { VerbDeps } from "./deps.ts";

export interface Call {
  readonly kind: Kind;
  /** Namespace of the object; empty for cluster-scoped kinds and for all namespaces. */
  readonly namespace: string;
  readonly name: string;
  readonly subresource: string;
  readonly query: URLSearchParams;
  readonly body: Body;
  readonly user: User;
  readonly representation: Representation;
  readonly warnings: string[];
  readonly closed: CancelSignal;
}

/** Object of a reply. A stored object is sent as its text if nothing has to be converted. */
export type ReplyObject = StoredObject | KubeObject;

export type Reply =
  | { readonly type: "object"; readonly code: number; readonly object: ReplyObject }
  | { readonly type: "fields"; readonly code: number; readonly fields: Fields }
  | {
      readonly type: "list";
      readonly items: readonly StoredObject[];
      readonly revision: number;
      readonly continueToken?: string;
      readonly remaining?: number;
    };

export function toResourceRef(kind: Kind): ResourceRef {
  return { group: kind.group, resource: kind.resource, kind: kind.kind };
}

export function toAddress(call: Pick<Call, "kind" | "namespace" | "name">): Address {
  return { bucket: bucketOf(call.kind), namespace: call.namespace, name: call.name };
}

export function isDryRun(query: URLSearchParams): boolean {
  return query.getAll("dryRun").includes("All");
}

/** Waits in the fair queue if the text is long, so that other users' requests proceed first. Counts the time of the work that follows. */
export async function queueIfHeavy(
  call: Pick<Call, "user">,
  deps: Pick<VerbDeps, "fairQueue" | "quotas">,
  length: number,
): Promise<void> {
  if (isHeavy(length)) {
    await deps.fairQueue.waitForWrite(call.user);
  }
  deps.quotas.countTurn(call.user);
}
