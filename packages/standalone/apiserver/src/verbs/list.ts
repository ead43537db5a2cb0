// SPDX-License-Identifier: Apache-2.0
// GET of a collection at the current or an earlier revision. The pages of a list share one revision.
import { type StatusError, badRequest, expired } from "../meta/status.ts";
import { isFields, parseJson, printJson } from "../objects/json.ts";
import { printAddress } from "../objects/object.ts";
import { TimeSlice } from "../limits/fair-queue.ts";
import type { StoredObject } from "../storage/store.ts";
import type { Call, Reply } from "./call.ts";
import type { VerbDeps } from "./deps.ts";
import {
  assertRevisionReached,
  checkRevisionMatch,
  parseCount,
  parseRevision,
} from "./options/list-options.ts";
import { type Selection, parseSelection, selectMatching } from "./options/selection.ts";

type ListReply = Extract<Reply, { type: "list" }>;

interface Continuation {
  /** Revision of the first page. A token in an error 410 contains -1, which makes the list continue at the current revision. */
  readonly revision: number;
  readonly after: string;
}

interface ListOptions {
  readonly limit: number;
  readonly continuation: Continuation | undefined;
  /** Revision at which the objects are listed; undefined means the current revision. */
  readonly requiredRevision: number | undefined;
}

function printContinuation(continuation: Continuation): string {
  return Buffer.from(printJson(continuation)).toString("base64url");
}

function parseContinuation(token: string): Continuation | undefined {
  if (token === "") {
    return undefined;
  }
  try {
    const fields = parseJson(Buffer.from(token, "base64url").toString());
    if (
      isFields(fields) &&
      typeof fields["revision"] === "number" &&
      typeof fields["after"] === "string"
    ) {
      return { revision: fields["revision"], after: fields["after"] };
    }
  } catch {
    // not a token of this server: rejected below
  }
  throw badRequest("continue key is not valid: the token was not issued by this server");
}

function checkRevision(query: URLSearchParams, isContinued: boolean): void {
  checkRevisionMatch(query, false);
  if (isContinued && !["", "0"].includes(query.get("resourceVersion") ?? "")) {
    throw badRequest("specifying resource version is not allowed when using continue");
  }
}

/** Returns the exact revision that the client requires, if any. Source: kube-apiserver, validation of resourceVersionMatch. */
function exactRevision(match: string, requested: number, limit: number): number | undefined {
  const isExact = match === "Exact" || (match === "" && limit > 0 && requested > 0);
  return isExact ? requested : undefined;
}

function parseOptions({ query }: Call): ListOptions {
  const match = query.get("resourceVersionMatch") ?? "";
  const revision = query.get("resourceVersion") ?? "";
  const continuation = parseContinuation(query.get("continue") ?? "");
  checkRevision(query, continuation !== undefined);
  const limit = parseCount(query.get("limit"));
  // A list from revision 0 ignores the limit. Source: kube-apiserver, lists from its cache.
  const ignoresLimit = revision === "0" && match === "" && continuation === undefined;
  return {
    limit: ignoresLimit ? 0 : limit,
    continuation,
    requiredRevision: exactRevision(match, parseRevision(revision) ?? 0, limit),
  };
}

/** Creates a 410 for an expired revision. For later pages, the error contains a continue token for the current revision. */
function expiredList(continuation: Continuation | undefined): StatusError {
  return continuation === undefined
    ? expired("The resourceVersion for the provided list is too old.")
    : expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        printContinuation({ ...continuation, revision: -1 }),
      );
}

function listStates(
  deps: VerbDeps,
  selection: Selection,
  position: { readonly revision: number; readonly continuation: Continuation | undefined },
): readonly StoredObject[] {
  if (position.revision === deps.store.revision()) {
    return deps.store.list(selection.scope);
  }
  const states = deps.store.listAt(selection.scope, position.revision);
  if (states === undefined) {
    throw expiredList(position.continuation);
  }
  return states;
}

function indexAfter(objects: readonly StoredObject[], address: string): number {
  const index = objects.findIndex((object) => printAddress(object.address) > address);
  return index < 0 ? objects.length : index;
}

async function buildPage(
  states: readonly StoredObject[],
  selection: Selection,
  options: ListOptions & { readonly revision: number; readonly timeSlice: TimeSlice },
): Promise<ListReply> {
  const { limit, continuation, revision, timeSlice } = options;
  const remaining = states.slice(indexAfter(states, continuation?.after ?? ""));
  // Selects one extra object to detect whether another page follows.
  const selectLimit = limit === 0 ? Infinity : limit + 1;
  const matchingObjects = await selectMatching(remaining, selection, {
    timeSlice,
    limit: selectLimit,
  });
  if (limit === 0 || matchingObjects.length <= limit) {
    return { type: "list", items: matchingObjects, revision };
  }
  const items = matchingObjects.slice(0, limit);
  const lastItem = items.at(-1);
  const after = lastItem === undefined ? "" : printAddress(lastItem.address);
  return {
    type: "list",
    items,
    revision,
    // Like kube-apiserver, omits remainingItemCount if the list has a selector.
    ...(selection.matches === undefined ? { remaining: remaining.length - limit } : {}),
    continueToken: printContinuation({ revision, after }),
  };
}

export async function listObjects(call: Call, deps: VerbDeps): Promise<Reply> {
  const options = parseOptions(call);
  const current = deps.store.revision();
  assertRevisionReached(parseRevision(call.query.get("resourceVersion")) ?? 0, current);
  const { continuation } = options;
  const requested = continuation?.revision ?? options.requiredRevision ?? current;
  const revision = requested < 0 ? current : requested;
  const selection = parseSelection(call);
  const states = listStates(deps, selection, { revision, continuation });
  const timeSlice = new TimeSlice(deps, call);
  try {
    const reply = await buildPage(states, selection, { ...options, revision, timeSlice });
    if (revision !== current) {
      // Loads the serialized objects now, because earlier revisions may be compacted before the response is sent.
      reply.items.forEach((item) => {
        item.loadText();
      });
    }
    return reply;
  } catch (error) {
    // A RangeError means that the revision was compacted during the search.
    throw error instanceof RangeError ? expiredList(continuation) : error;
  }
}
