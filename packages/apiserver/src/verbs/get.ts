// SPDX-License-Identifier: Apache-2.0
// GET of one object.
import { notFound } from "../meta/status.ts";
import { type Call, type Reply, aboutOf, addressOf } from "./call.ts";
import type { VerbDeps } from "./deps.ts";
import { checkReached, parseRevision } from "./options/options.ts";

/** Answers with the object. Throws a StatusError 404. */
export function getObject(call: Call, deps: VerbDeps): Reply {
  checkReached(parseRevision(call.query.get("resourceVersion")) ?? 0, deps.store.revision());
  const stored = deps.store.find(addressOf(call));
  if (stored === undefined) {
    throw notFound(aboutOf(call.kind), call.name);
  }
  return { type: "object", code: 200, object: stored };
}
