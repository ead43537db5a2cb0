// SPDX-License-Identifier: Apache-2.0

const QUANTITY_SYNTAX = /^\+?(\d+(?:\.\d*)?|\.\d+)(?:([eE][+-]?\d+)|([KMGTPE]i|[numkMGTPE]))?$/;

const SUFFIX_FACTORS: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** Parses a non-negative quantity. Returns undefined for malformed text. Source: Kubernetes apimachinery resource.Quantity. */
export function parseQuantity(quantity: unknown): number | undefined {
  const match = QUANTITY_SYNTAX.exec(String(quantity));
  if (match === null) return undefined;
  const [, digits = "", exponent = "", suffix = ""] = match;
  return Number(`${digits}${exponent}`) * (SUFFIX_FACTORS[suffix] ?? 1);
}

/** Parses a quantity of bytes. Removes rounding errors: 1.1M is 1100000, not 1100000.0000000002. */
export function parseBytes(quantity: unknown): number | undefined {
  const value = parseQuantity(quantity);
  if (value === undefined) return undefined;
  const rounded = Math.round(value);
  return Math.abs(value - rounded) < 1e-3 ? rounded : value;
}
