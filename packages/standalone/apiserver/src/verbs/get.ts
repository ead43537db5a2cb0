// SPDX-License-Identifier: Apache-2.0
import { notFound } from "../meta/status.ts";
import type { StoredObject } from "../storage/store.ts";
import { type Call, type Reply, toResourceRef, toAddress } from "./call.ts";
import type { VerbDeps } from "./deps.ts";
import { assertRevisionReached, parseRevision } from "./options/list-options.ts";

/** Returns the stored object. @throws StatusError 400, 404 or 504 */
export function getStored(call: Call, deps: VerbDeps): StoredObject {
  assertRevisionReached(
    parseRevision(call.query.get("resourceVersion")) ?? 0,
    deps.store.revision(),
  );
  const stored = deps.store.find(toAddress(call));
  if (stored === undefined) {
    throw notFound(toResourceRef(call.kind), call.name);
  }
  return stored;
}

export function getObject(call: Call, deps: VerbDeps): Reply {
  return { type: "object", code: 200, object: getStored(call, deps) };
}
