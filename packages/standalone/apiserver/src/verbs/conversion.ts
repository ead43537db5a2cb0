// SPDX-License-Identifier: Apache-2.0
// Conversion between the stored version of an object and the version that a client requests.
import { type Kind, apiVersionOf } from "../kinds/kind.ts";
import { copyJson, printJson } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { StoredObject } from "../storage/store.ts";

/** Returns whether the stored text can be sent without conversion. */
function isCurrent(kind: Kind, stored: StoredObject): boolean {
  const { custom } = kind;
  if (custom === undefined) {
    return kind.view === undefined;
  }
  return stored.revision > custom.schemaRevision && custom.storageApiVersion === apiVersionOf(kind);
}

function convert(kind: Kind, object: KubeObject): KubeObject {
  if (kind.view !== undefined) {
    return kind.view.fromStored(object);
  }
  object.apiVersion = apiVersionOf(kind);
  kind.strategy.applyDefaults?.(object);
  return object;
}

/** Returns an object that the caller may change. */
export function readObject(kind: Kind, stored: StoredObject): KubeObject {
  return isCurrent(kind, stored) ? stored.copy() : convert(kind, stored.copy());
}

/** Returns an object that the caller must not change. */
export function viewObject(kind: Kind, stored: StoredObject): KubeObject {
  return isCurrent(kind, stored) ? stored.view() : convert(kind, stored.copy());
}

export function readText(kind: Kind, stored: StoredObject): string {
  return isCurrent(kind, stored) ? stored.text : printJson(convert(kind, stored.copy()));
}

export function toStorage(kind: Kind, object: KubeObject): KubeObject {
  if (kind.view !== undefined) {
    return kind.view.toStored(object);
  }
  return kind.custom === undefined || kind.custom.storageApiVersion === object.apiVersion
    ? object
    : { ...copyJson(object), apiVersion: kind.custom.storageApiVersion };
}
