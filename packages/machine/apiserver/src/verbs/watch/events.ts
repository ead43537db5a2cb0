// SPDX-License-Identifier: Apache-2.0
// How changes look to one watch: which of them it sees, as what, and in which form.
import { type Kind, apiVersionOf } from "../../kinds/kind.ts";
import { copyJson, printJson } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { Change, ChangeType, StoredObject } from "../../storage/store.ts";
import { toPartial, toTable } from "../../table/table.ts";
import type { Call } from "../call.ts";
import { readText, viewObject } from "../readable.ts";
import type { Selection } from "../options/selection.ts";

/** Makes the lines of one watch. */
export interface EventWriter {
  /** An object that was there before the watch. */
  added(stored: StoredObject): string;
  /** What this watch sees of some changes; undefined where it sees nothing. */
  changed(changes: readonly Change[]): Buffer | undefined;
  bookmark(revision: number): string;
}

type Seen = { readonly type: ChangeType; readonly state: StoredObject } | undefined;

/** What was made for all watches of one kind and form: an object is printed and encoded once. */
class Shared<Source extends object> {
  readonly #made = new WeakMap<Source, Map<Kind, Map<string, Buffer>>>();

  get(source: Source, form: readonly [Kind, string], make: () => Buffer): Buffer {
    const [kind, name] = form;
    const byKind = this.#made.get(source) ?? new Map<Kind, Map<string, Buffer>>();
    this.#made.set(source, byKind);
    const byName = byKind.get(kind) ?? new Map<string, Buffer>();
    byKind.set(kind, byName);
    const made = byName.get(name) ?? make();
    byName.set(name, made);
    return made;
  }
}

const LINES = new Shared<Change>();
/** Of whole commits, for watches without selectors. */
const COMMITS = new Shared<readonly Change[]>();

/** What a watch with selectors sees: an object that leaves the selection is DELETED with its state before. */
function seen(change: Change, matches: NonNullable<Selection["matches"]>): Seen {
  const { current, previous, type } = change;
  const before = previous !== undefined && matches(previous);
  if (type === "DELETED") {
    return before ? { type, state: current } : undefined;
  }
  if (matches(current)) {
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

/** One line is shared, and not copied for each watch. */
function joined(lines: readonly Buffer[]): Buffer {
  const [first] = lines;
  return first !== undefined && lines.length === 1 ? first : Buffer.concat(lines);
}

function toLine(type: string, text: string): string {
  return `{"type":"${type}","object":${text}}\n`;
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
    return toLine("ADDED", this.#text(stored, stored.revision));
  }

  changed(changes: readonly Change[]): Buffer | undefined {
    const { kind, representation } = this.#call;
    const make = () => changes.flatMap((change) => this.#changed(change) ?? []);
    if (this.#selection.matches === undefined && representation.as !== "Table") {
      return COMMITS.get(changes, [kind, representation.as], () => joined(make()));
    }
    const lines = make();
    return lines.length === 0 ? undefined : joined(lines);
  }

  bookmark(revision: number): string {
    const { kind } = this.#call;
    const object = {
      kind: kind.kind,
      apiVersion: apiVersionOf(kind),
      metadata: { resourceVersion: String(revision), creationTimestamp: null },
    };
    // A bookmark is an object of which only the form and the revision are there.
    return toLine("BOOKMARK", this.#shown(object as unknown as KubeObject, revision));
  }

  #changed(change: Change): Buffer | undefined {
    const view = seenBy(change, this.#selection);
    if (view === undefined) {
      return undefined;
    }
    const make = () =>
      Buffer.from(toLine(view.type, this.#text(view.state, change.revision)), "utf8");
    const { kind, representation } = this.#call;
    return representation.as === "Table"
      ? make()
      : LINES.get(change, [kind, `${view.type} ${representation.as}`], make);
  }

  #text(state: StoredObject, revision: number): string {
    const { kind, representation } = this.#call;
    if (representation.as === "object" && state.revision === revision) {
      return readText(kind, state);
    }
    return this.#shown(withRevision(viewObject(kind, state), revision), revision);
  }

  #shown(object: KubeObject, revision: number): string {
    const { kind, representation, query } = this.#call;
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
}

/** Makes the writer of one watch. */
export function makeEventWriter(call: Call, selection: Selection, now: () => number): EventWriter {
  return new Writer(call, selection, now);
}
