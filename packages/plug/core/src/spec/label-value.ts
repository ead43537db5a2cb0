// SPDX-License-Identifier: Apache-2.0
// Names as values of labels, which are shorter than names may be.

/** Source: Kubernetes validation of label values. */
const VALUE_MAX = 63;
const HASH_DIGITS = 8;

/** FNV-1a of 32 bits, hexadecimal: tells names apart, keeps nothing secret. */
function hashOf(text: string): string {
  let hash = 0x811c9dc5;
  // Names are ASCII. Source: Kubernetes names.
  for (const letter of text) {
    hash = Math.imul(hash ^ (letter.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  }
  return hash.toString(16).padStart(HASH_DIGITS, "0");
}

/** The name, or as much of it as a label can hold, with a hash of all of it. */
export function labelValueOf(name: string): string {
  if (name.length <= VALUE_MAX) return name;
  const start = name
    .slice(0, VALUE_MAX - HASH_DIGITS - 1)
    .replace(/(?<=^|[a-zA-Z0-9])[^a-zA-Z0-9]+$/, "");
  return `${start}-${hashOf(name)}`;
}
