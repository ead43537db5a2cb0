// SPDX-License-Identifier: Apache-2.0
// GET of a collection: current or past states, in pages of one snapshot.
import { type StatusError, badRequest, expired } from "../http/status.ts";
import { isFields, parseJson, printJson } from "../objects/json.ts";
import { printAddress } from "../objects/object.ts";
import type { StoredObject } from "../storage/store.ts";
import type { Call, Deps, Reply } from "./call.ts";
import { checkReached, parseRevision } from "./options.ts";
import { type Selection, parseSelection, select } from "./selection.ts";

/** Where the next page begins. */
interface Continuation {
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

const MATCHES = new Set(["", "Exact", "NotOlderThan"]);

function checkMatch(match: string, revision: string, continued: boolean): void {
  if (match === "" && !(continued && revision !== "" && revision !== "0")) {
    return;
  }
  if (continued) {
    throw badRequest("specifying resource version is not allowed when using continue");
  }
  if (!MATCHES.has(match)) {
    throw badRequest(`resourceVersionMatch: Unsupported value: "${match}"`);
  }
  if (revision === "" || (match === "Exact" && revision === "0")) {
    throw badRequest(
      `resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless a resourceVersion other than "0" is provided`,
    );
  }
}

function parseOptions(call: Call): ListOptions {
  const { query } = call;
  const match = query.get("resourceVersionMatch") ?? "";
  const revision = query.get("resourceVersion") ?? "";
  const continuation = parseContinuation(query.get("continue") ?? "");
  checkMatch(match, revision, continuation !== undefined);
  const asked = parseRevision(revision);
  return {
    limit: Number(query.get("limit") ?? 0),
    continuation,
    exact: match === "Exact" ? asked : undefined,
  };
}

function expiredList(): StatusError {
  return expired(
    "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.",
  );
}

function statesAt(
  deps: Deps,
  selection: Selection,
  at: number | undefined,
): readonly StoredObject[] {
  if (at === undefined || at === deps.store.revision()) {
    return deps.store.list(selection.scope);
  }
  const states = deps.store.listAt(selection.scope, at);
  if (states === undefined) {
    throw expiredList();
  }
  return states;
}

function page(matching: readonly StoredObject[], options: ListOptions, revision: number): Reply {
  const after = options.continuation?.after ?? "";
  const rest = matching.filter((object) => printAddress(object.address) > after);
  if (options.limit <= 0 || rest.length <= options.limit) {
    return { type: "list", items: rest, revision };
  }
  const items = rest.slice(0, options.limit);
  const last = items.at(-1);
  return {
    type: "list",
    items,
    revision,
    remaining: rest.length - items.length,
    continueToken: printContinuation({
      revision,
      after: last === undefined ? "" : printAddress(last.address),
    }),
  };
}

/** Answers with the objects that match. Throws StatusErrors 400, 410 and 504. */
export function listObjects(call: Call, deps: Deps): Reply {
  const options = parseOptions(call);
  const current = deps.store.revision();
  checkReached(parseRevision(call.query.get("resourceVersion")) ?? 0, current);
  const at = options.continuation?.revision ?? options.exact;
  const selection = parseSelection(call);
  const matching = select(statesAt(deps, selection, at), selection);
  return page(matching, options, at ?? current);
}
