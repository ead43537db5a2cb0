// SPDX-License-Identifier: Apache-2.0

/** Code that reads input of tenants, guests or foreign programs. */
export interface Subject {
  readonly name: string;
  /** Largest size of the input, in entries or bytes. */
  readonly limit: number;
  /** Builds an input of this size, and returns the call to measure. */
  readonly prepare: (size: number) => (() => unknown) | Promise<() => unknown>;
}

export function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_entry, index) => make(index));
}
