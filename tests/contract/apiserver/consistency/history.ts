// SPDX-License-Identifier: Apache-2.0
// The model of a store: one sequence of changes that determines every list and every watch.
import type { Body, WatchEvent } from "../harness.ts";

/** The scope of a list or a watch. */
export interface View {
  /** Undefined: all namespaces. */
  readonly namespace?: string;
  readonly name?: string;
  /** Value of the label `app`. */
  readonly app?: string;
}

export function queryOf({ name, app }: View): string {
  return [
    ...(name === undefined ? [] : [`fieldSelector=metadata.name%3D${name}`]),
    ...(app === undefined ? [] : [`labelSelector=app%3D${app}`]),
  ].join("&");
}

export function revisionOf({ metadata }: Body): number {
  return Number(metadata.resourceVersion);
}

export function keyOf({ metadata }: Body): string {
  return `${metadata.namespace ?? ""}/${metadata.name}`;
}

function matches(view: View, object: Body | undefined): object is Body {
  return (
    object !== undefined &&
    object.metadata.namespace === (view.namespace ?? object.metadata.namespace) &&
    object.metadata.name === (view.name ?? object.metadata.name) &&
    object.metadata.labels?.["app"] === (view.app ?? object.metadata.labels?.["app"])
  );
}

/** An object as deletions and selection changes return it. */
function at(object: Body, revision: number): Body {
  return { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } };
}

/** All events, from one watch of everything. */
export class History {
  readonly events: readonly WatchEvent[];

  constructor(events: readonly WatchEvent[]) {
    this.events = events;
  }

  /** Contradictions: revisions that do not grow, objects that appear or vanish twice. */
  faults(): string[] {
    const present = new Set<string>();
    let last = 0;
    return this.events.flatMap(({ type, object }) => {
      const key = keyOf(object);
      const fits = present.has(key) === (type !== "ADDED") && revisionOf(object) > last;
      last = revisionOf(object);
      if (type === "DELETED") {
        present.delete(key);
      } else {
        present.add(key);
      }
      return fits ? [] : [`${type} ${key} at ${String(last)}`];
    });
  }

  find(revision: number): WatchEvent | undefined {
    return this.events.find(({ object }) => revisionOf(object) === revision);
  }

  /** All objects of a view at a revision, in the order of lists. */
  stateAt(view: View, revision: number): Body[] {
    const objects = new Map<string, Body>();
    for (const { type, object } of this.events) {
      if (revisionOf(object) > revision) {
        break;
      }
      objects.delete(keyOf(object));
      if (type !== "DELETED") {
        objects.set(keyOf(object), object);
      }
    }
    const found = [...objects.values()].filter((object) => matches(view, object));
    return found.sort((left, right) => (keyOf(left) < keyOf(right) ? -1 : 1));
  }

  /** The events of a watch of a view from a revision. */
  eventsAfter(view: View, revision: number): WatchEvent[] {
    const before = new Map<string, Body>();
    return this.events.flatMap(({ type, object }) => {
      const previous = before.get(keyOf(object));
      before.delete(keyOf(object));
      if (type !== "DELETED") {
        before.set(keyOf(object), object);
      }
      return revisionOf(object) <= revision ? [] : seenBy(view, { type, object }, previous);
    });
  }
}

function seenBy(
  view: View,
  { type, object }: WatchEvent,
  previous: Body | undefined,
): WatchEvent[] {
  const was = matches(view, previous);
  if (type === "DELETED") {
    return was ? [{ type, object }] : [];
  }
  if (matches(view, object)) {
    return [{ type: was ? "MODIFIED" : "ADDED", object }];
  }
  return was ? [{ type: "DELETED", object: at(previous, revisionOf(object)) }] : [];
}
