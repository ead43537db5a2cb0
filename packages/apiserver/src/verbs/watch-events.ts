// SPDX-License-Identifier: Apache-2.0
// How changes look to one watch: which of them it sees, as what, and in which form.
import { apiVersionOf } from "../kinds/kind.ts";
import { copyJson, printJson } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Change, ChangeType, StoredObject } from "../storage/store.ts";
import { toPartial, toTable } from "../table/table.ts";
import type { Call } from "./call.ts";
import { readText, viewObject } from "./readable.ts";
import type { Selection } from "./selection.ts";

/** Makes the lines of one watch. */
export interface EventWriter {
  /** An object that was there before the watch. */
  added(stored: StoredObject): string;
  /** A change; undefined where this watch does not see it. */
  changed(change: Change): string | undefined;
  bookmark(revision: number): string;
}

type Seen = { readonly type: ChangeType; readonly state: StoredObject } | undefined;

/** The last line that was made for a change, for all watches of one kind and form: an object is printed once. */
const LINES = new WeakMap<Change, Map<string, string>>();

/** What a watch with selectors sees: an object that leaves the selection is DELETED with its state before. */
function seen(change: Change, matches: NonNullable<Selection["matches"]>): Seen {
  const { current, previous, type } = change;
  const before = previous !== undefined && matches(previous.view());
  if (type === "DELETED") {
    return before ? { type, state: current } : undefined;
  }
  if (matches(current.view())) {
    return { type: before ? "MODIFIED" : "ADDED", state: current };
  }
  return before ? { type: "DELETED", state: previous } : undefined;
}

function seenBy(change: Change, selection: Selection): Seen {
  const { matches, name } = selection;
  if (name !== undefined && change.current.address.name !== name) {
    return undefined;
  }
  return matches === undefined
    ? { type: change.type, state: change.current }
    : seen(change, matches);
}

/** A state with another resourceVersion: that of the change that took it out of the selection. */
function withRevision(object: KubeObject, revision: number): KubeObject {
  const copy = copyJson(object);
  copy.metadata.resourceVersion = String(revision);
  return copy;
}

class Writer implements EventWriter {
  readonly #call: Call;
  readonly #selection: Selection;
  readonly #now: () => number;
  #headers = true;

  constructor(call: Call, selection: Selection, now: () => number) {
    this.#call = call;
    this.#selection = selection;
    this.#now = now;
  }

  added(stored: StoredObject): string {
    return this.#line("ADDED", this.#text(stored, stored.revision));
  }

  changed(change: Change): string | undefined {
    const view = seenBy(change, this.#selection);
    if (view === undefined) {
      return undefined;
    }
    if (this.#call.representation.as === "Table") {
      return this.#line(view.type, this.#text(view.state, change.revision));
    }
    const { kind, representation } = this.#call;
    const key = `${view.type} ${kind.version} ${representation.as}`;
    const lines = LINES.get(change) ?? new Map<string, string>();
    LINES.set(change, lines);
    const line = lines.get(key) ?? this.#line(view.type, this.#text(view.state, change.revision));
    lines.set(key, line);
    return line;
  }

  bookmark(revision: number): string {
    const { kind } = this.#call;
    const object = {
      kind: kind.kind,
      apiVersion: apiVersionOf(kind),
      metadata: { resourceVersion: String(revision), creationTimestamp: null },
    };
    return this.#line("BOOKMARK", printJson(object));
  }

  #text(state: StoredObject, revision: number): string {
    const { kind, representation, query } = this.#call;
    if (representation.as === "object" && state.revision === revision) {
      return readText(kind, state);
    }
    const object = withRevision(viewObject(kind, state), revision);
    if (representation.as === "object") {
      return printJson(object);
    }
    if (representation.as === "PartialObjectMetadata") {
      return printJson(toPartial(object));
    }
    const asked = query.get("includeObject");
    const include = asked === "None" || asked === "Object" ? asked : "Metadata";
    const options = { kind, include, nowMs: this.#now(), headers: this.#headers } as const;
    this.#headers = false;
    return printJson(toTable([object], { resourceVersion: String(revision) }, options));
  }

  #line(type: string, text: string): string {
    return `{"type":"${type}","object":${text}}\n`;
  }
}

/** Makes the writer of one watch. */
export function makeEventWriter(call: Call, selection: Selection, now: () => number): EventWriter {
  return new Writer(call, selection, now);
}
