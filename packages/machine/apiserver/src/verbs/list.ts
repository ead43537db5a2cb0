// SPDX-License-Identifier: Apache-2.0
// GET of a collection: current or past states, in pages of one snapshot.
import { type StatusError, badRequest, expired } from "../meta/status.ts";
import { isFields, parseJson, printJson } from "../objects/json.ts";
import { printAddress } from "../objects/object.ts";
import { Pace } from "../limits/fair-queue.ts";
import type { StoredObject } from "../storage/store.ts";
import type { Call, Reply } from "./call.ts";
import type { VerbDeps } from "./deps.ts";
import { checkReached, parseCount, parseRevision } from "./options/options.ts";
import { checkRevisionMatch } from "./options/revision-match.ts";
import { type Selection, parseSelection, select } from "./options/selection.ts";

type ListReply = Extract<Reply, { type: "list" }>;

/** Where the next page begins. */
interface Continuation {
  /** The snapshot of the first page; -1: whatever is there now. */
  readonly revision: number;
  /** Address behind which the page begins. */
  readonly after: string;
}

interface ListOptions {
  readonly limit: number;
  readonly continuation: Continuation | undefined;
  /** The one revision that is wanted. */
  readonly exact: number | undefined;
}

function printContinuation(continuation: Continuation): string {
  return Buffer.from(printJson(continuation)).toString("base64url");
}

function parseContinuation(token: string): Continuation | undefined {
  if (token === "") {
    return undefined;
  }
  try {
    const parsed = parseJson(Buffer.from(token, "base64url").toString());
    if (
      isFields(parsed) &&
      typeof parsed["revision"] === "number" &&
      typeof parsed["after"] === "string"
    ) {
      return { revision: parsed["revision"], after: parsed["after"] };
    }
  } catch {
    // Refused below: not a token of this server.
  }
  throw badRequest("continue key is not valid: the token is not one of this server");
}

function checkRevision(query: URLSearchParams, continued: boolean): void {
  checkRevisionMatch(query, false);
  if (continued && !["", "0"].includes(query.get("resourceVersion") ?? "")) {
    throw badRequest("specifying resource version is not allowed when using continue");
  }
}

/** The one revision that is wanted. Without a match, a page of a revision is exact and a whole list is only not older. Source: kube-apiserver. */
function exactRevision(match: string, asked: number, limit: number): number | undefined {
  const isExact = match === "Exact" || (match === "" && limit > 0 && asked > 0);
  return isExact ? asked : undefined;
}

function parseOptions({ query }: Call): ListOptions {
  const match = query.get("resourceVersionMatch") ?? "";
  const revision = query.get("resourceVersion") ?? "";
  const continuation = parseContinuation(query.get("continue") ?? "");
  checkRevision(query, continuation !== undefined);
  const limit = parseCount(query.get("limit"));
  // A list from 0 is never cut. Source: kube-apiserver, which serves it from its cache.
  const isWhole = revision === "0" && match === "" && continuation === undefined;
  return {
    limit: isWhole ? 0 : limit,
    continuation,
    exact: exactRevision(match, parseRevision(revision) ?? 0, limit),
  };
}

/** 410; the token of a list that was begun leads on, at the price of a list that is of no one moment. */
function expiredList(continuation: Continuation | undefined): StatusError {
  return continuation === undefined
    ? expired("The resourceVersion for the provided list is too old.")
    : expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        printContinuation({ ...continuation, revision: -1 }),
      );
}

function statesAt(
  deps: VerbDeps,
  selection: Selection,
  at: { readonly revision: number; readonly continuation: Continuation | undefined },
): readonly StoredObject[] {
  if (at.revision === deps.store.revision()) {
    return deps.store.list(selection.scope);
  }
  const states = deps.store.listAt(selection.scope, at.revision);
  if (states === undefined) {
    throw expiredList(at.continuation);
  }
  return states;
}

/** Index of the first object behind an address; objects are in the order of their addresses. */
function indexAfter(objects: readonly StoredObject[], address: string): number {
  const index = objects.findIndex((object) => printAddress(object.address) > address);
  return index < 0 ? objects.length : index;
}

async function page(
  states: readonly StoredObject[],
  selection: Selection,
  options: ListOptions & { readonly revision: number; readonly pace: Pace },
): Promise<ListReply> {
  const { limit, continuation, revision, pace } = options;
  const rest = states.slice(indexAfter(states, continuation?.after ?? ""));
  // One more than is shown tells whether there are more.
  const wanted = limit === 0 ? Infinity : limit + 1;
  const matching = await select(rest, selection, { pace, limit: wanted });
  if (limit === 0 || matching.length <= limit) {
    return { type: "list", items: matching, revision };
  }
  const items = matching.slice(0, limit);
  const last = items.at(-1);
  const after = last === undefined ? "" : printAddress(last.address);
  return {
    type: "list",
    items,
    revision,
    // What a selector leaves of the rest is not counted. Source: kube-apiserver.
    ...(selection.matches === undefined ? { remaining: rest.length - limit } : {}),
    continueToken: printContinuation({ revision, after }),
  };
}

/** Answers with the objects that match. Throws StatusErrors 400, 410 and 504. */
export async function listObjects(call: Call, deps: VerbDeps): Promise<Reply> {
  const options = parseOptions(call);
  const current = deps.store.revision();
  checkReached(parseRevision(call.query.get("resourceVersion")) ?? 0, current);
  const { continuation } = options;
  const asked = continuation?.revision ?? options.exact ?? current;
  const revision = asked < 0 ? current : asked;
  const selection = parseSelection(call);
  const states = statesAt(deps, selection, { revision, continuation });
  const pace = new Pace(deps, call.user.name);
  try {
    const reply = await page(states, selection, { ...options, revision, pace });
    if (revision !== current) {
      // The answer is sent piece by piece, and past states may be compacted meanwhile.
      reply.items.forEach((item) => {
        item.hold();
      });
    }
    return reply;
  } catch (error) {
    // It was compacted while it was looked through.
    throw error instanceof RangeError ? expiredList(continuation) : error;
  }
}
