// SPDX-License-Identifier: Apache-2.0
// Which keys belong to a scope?
import type { Address } from "../objects/object.ts";
import type { Scope } from "./store.ts";

/** First key of a scope, and the first behind it: `/` is followed by `0` in ASCII. */
export function rangeOf(scope: Scope): readonly [string, string] {
  const { bucket, namespace, name } = scope;
  if (namespace === undefined) {
    return [`${bucket}/`, `${bucket}0`];
  }
  return name === undefined
    ? [`${bucket}/${namespace}/`, `${bucket}/${namespace}0`]
    : [`${bucket}/${namespace}/${name}`, `${bucket}/${namespace}/${name}\0`];
}

/** The scopes that an address belongs to, from wide to narrow, each by the first key of its range. */
export function scopesOf({ bucket, namespace, name }: Address): readonly [string, string, string] {
  return [`${bucket}/`, `${bucket}/${namespace}/`, `${bucket}/${namespace}/${name}`];
}
