// SPDX-License-Identifier: Apache-2.0
// A stored state as clients of one version of its kind see it.
import { type Kind, apiVersionOf } from "../kinds/kind.ts";
import { copyJson, printJson } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { StoredObject } from "../storage/store.ts";

/** Whether the text in the store is what clients see. */
function isCurrent(kind: Kind, stored: StoredObject): boolean {
  const { custom } = kind;
  if (custom === undefined) {
    return kind.view === undefined;
  }
  return stored.revision > custom.schemaRevision && custom.storageApiVersion === apiVersionOf(kind);
}

function converted(kind: Kind, object: KubeObject): KubeObject {
  if (kind.view !== undefined) {
    return kind.view.fromStored(object);
  }
  object.apiVersion = apiVersionOf(kind);
  kind.strategy.applyDefaults?.(object);
  return object;
}

/** The object, to be changed by the caller. */
export function readObject(kind: Kind, stored: StoredObject): KubeObject {
  return isCurrent(kind, stored) ? stored.copy() : converted(kind, stored.copy());
}

/** The object, not to be changed. */
export function viewObject(kind: Kind, stored: StoredObject): KubeObject {
  return isCurrent(kind, stored) ? stored.view() : converted(kind, stored.copy());
}

/** The object as JSON text. */
export function readText(kind: Kind, stored: StoredObject): string {
  return isCurrent(kind, stored) ? stored.text : printJson(converted(kind, stored.copy()));
}

/** The object as it is stored. */
export function toStorage(kind: Kind, object: KubeObject): KubeObject {
  if (kind.view !== undefined) {
    return kind.view.toStored(object);
  }
  return kind.custom === undefined || kind.custom.storageApiVersion === object.apiVersion
    ? object
    : { ...copyJson(object), apiVersion: kind.custom.storageApiVersion };
}
