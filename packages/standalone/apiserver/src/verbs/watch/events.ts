// SPDX-License-Identifier: Apache-2.0
// Watch events: selects the changes that a watch reports, and converts them to events.
import { type Kind, apiVersionOf } from "../../kinds/kind.ts";
import { copyJson, printJson } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { Change, ChangeType, StoredObject } from "../../storage/store.ts";
import { toPartial, toTable } from "../../table/table.ts";
import type { Call } from "../call.ts";
import { readText, viewObject } from "../conversion.ts";
import type { Selection } from "../options/selection.ts";

export interface EventWriter {
  printAdded(stored: StoredObject): string;
  /** Serializes the events of the changes. Returns undefined if the changes cause no events. */
  printChanges(changes: readonly Change[]): Buffer | undefined;
  printBookmark(revision: number): string;
}

type VisibleChange = { readonly type: ChangeType; readonly state: StoredObject } | undefined;

/** Cache of serialized events, so that watches of the same kind and representation serialize each change once. */
class SharedCache<Source extends object> {
  readonly #values = new WeakMap<Source, Map<Kind, Map<string, Buffer>>>();

  get(source: Source, variant: readonly [Kind, string], print: () => Buffer): Buffer {
    const [kind, name] = variant;
    const byKind = this.#values.get(source) ?? new Map<Kind, Map<string, Buffer>>();
    this.#values.set(source, byKind);
    const byName = byKind.get(kind) ?? new Map<string, Buffer>();
    byKind.set(kind, byName);
    const value = byName.get(name) ?? print();
    byName.set(name, value);
    return value;
  }
}

const LINES_CACHE = new SharedCache<Change>();
/** Cache of the events of whole commits, for watches without selectors. */
const COMMITS_CACHE = new SharedCache<readonly Change[]>();

/** Filters by selectors. Objects that start matching are ADDED; objects that stop matching are DELETED, with their previous state. */
function filterChange(change: Change, matches: NonNullable<Selection["matches"]>): VisibleChange {
  const { current, previous, type } = change;
  const wasSelected = previous !== undefined && matches(previous);
  if (type === "DELETED") {
    return wasSelected ? { type, state: current } : undefined;
  }
  if (matches(current)) {
    return { type: wasSelected ? "MODIFIED" : "ADDED", state: current };
  }
  return wasSelected ? { type: "DELETED", state: previous } : undefined;
}

function toVisibleChange(change: Change, selection: Selection): VisibleChange {
  const { matches, name } = selection;
  if (name !== undefined && change.current.address.name !== name) {
    return undefined;
  }
  return matches === undefined
    ? { type: change.type, state: change.current }
    : filterChange(change, matches);
}

/** Returns a copy with another resourceVersion, for the DELETED event of an object that stopped matching the selectors. */
function withRevision(object: KubeObject, revision: number): KubeObject {
  const copy = copyJson(object);
  copy.metadata.resourceVersion = String(revision);
  return copy;
}

/** Joins lines. Returns a single line without copying it, because watches share its buffer. */
function joinLines(lines: readonly Buffer[]): Buffer {
  const [firstLine] = lines;
  return firstLine !== undefined && lines.length === 1 ? firstLine : Buffer.concat(lines);
}

function toLine(type: string, text: string): string {
  return `{"type":"${type}","object":${text}}\n`;
}

class WatchEventWriter implements EventWriter {
  readonly #call: Call;
  readonly #selection: Selection;
  readonly #now: () => number;
  #needsColumns = true;

  constructor(call: Call, selection: Selection, now: () => number) {
    this.#call = call;
    this.#selection = selection;
    this.#now = now;
  }

  printAdded(stored: StoredObject): string {
    return toLine("ADDED", this.#printState(stored, stored.revision));
  }

  printChanges(changes: readonly Change[]): Buffer | undefined {
    const { kind, representation } = this.#call;
    const print = () => changes.flatMap((change) => this.#printChange(change) ?? []);
    if (this.#selection.matches === undefined && representation.as !== "Table") {
      return COMMITS_CACHE.get(changes, [kind, representation.as], () => joinLines(print()));
    }
    const lines = print();
    return lines.length === 0 ? undefined : joinLines(lines);
  }

  printBookmark(revision: number): string {
    const { kind } = this.#call;
    const object = {
      kind: kind.kind,
      apiVersion: apiVersionOf(kind),
      metadata: { resourceVersion: String(revision), creationTimestamp: null },
    };
    return toLine("BOOKMARK", this.#printObject(object as unknown as KubeObject, revision));
  }

  #printChange(change: Change): Buffer | undefined {
    const view = toVisibleChange(change, this.#selection);
    if (view === undefined) {
      return undefined;
    }
    const print = () =>
      Buffer.from(toLine(view.type, this.#printState(view.state, change.revision)), "utf8");
    const { kind, representation } = this.#call;
    return representation.as === "Table"
      ? print()
      : LINES_CACHE.get(change, [kind, `${view.type} ${representation.as}`], print);
  }

  #printState(state: StoredObject, revision: number): string {
    const { kind, representation } = this.#call;
    if (representation.as === "object" && state.revision === revision) {
      return readText(kind, state);
    }
    return this.#printObject(withRevision(viewObject(kind, state), revision), revision);
  }

  #printObject(object: KubeObject, revision: number): string {
    const { kind, representation, query } = this.#call;
    if (representation.as === "object") {
      return printJson(object);
    }
    if (representation.as === "PartialObjectMetadata") {
      return printJson(toPartial(object));
    }
    const requested = query.get("includeObject");
    const include = requested === "None" || requested === "Object" ? requested : "Metadata";
    const options = {
      kind,
      include,
      nowMs: this.#now(),
      includesColumns: this.#needsColumns,
    } as const;
    this.#needsColumns = false;
    return printJson(toTable([object], { resourceVersion: String(revision) }, options));
  }
}

export function makeEventWriter(call: Call, selection: Selection, now: () => number): EventWriter {
  return new WatchEventWriter(call, selection, now);
}
