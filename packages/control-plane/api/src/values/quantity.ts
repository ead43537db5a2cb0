// SPDX-License-Identifier: Apache-2.0

const QUANTITY = /^\+?(\d+(?:\.\d*)?|\.\d+)(?:([eE][+-]?\d+)|([KMGTPE]i|[numkMGTPE]))?$/;

const FACTORS: Readonly<Record<string, number>> = {
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

/** Parses a non-negative quantity; undefined if malformed. Source: Kubernetes apimachinery resource.Quantity. */
export function parseQuantity(quantity: unknown): number | undefined {
  const match = QUANTITY.exec(String(quantity));
  if (match === null) return undefined;
  const [, digits = "", exponent = "", suffix = ""] = match;
  return Number(`${digits}${exponent}`) * (FACTORS[suffix] ?? 1);
}
