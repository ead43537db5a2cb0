// SPDX-License-Identifier: Apache-2.0
// Members of objects that may be unsaid.

/** The members that are said. */
export function said<T extends object>(
  members: T,
): { readonly [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(members).filter(([, value]) => value !== undefined);
  // Of each member only that it is there is known.
  return Object.fromEntries(entries) as { readonly [K in keyof T]?: Exclude<T[K], undefined> };
}

/** Whether a text, a switch or a list says nothing. Source: Go's zero values, by which KubeVirt decides. */
export function isUnsaid(value: unknown): boolean {
  return value === undefined || value === "" || value === false || value === 0;
}
