// SPDX-License-Identifier: Apache-2.0
// How many bytes is a quantity of memory?

const FACTORS: Readonly<Record<string, number>> = {
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
};

/** Bytes, rounded up; undefined when it is no quantity of memory. Source: Kubernetes resource.Quantity. */
export function parseBytes(quantity: string | undefined): number | undefined {
  const match = /^(\d+(?:\.\d+)?)([A-Za-z]*)$/.exec(quantity ?? "");
  const factor = FACTORS[match?.[2] ?? ""];
  return match === null || factor === undefined ? undefined : Math.ceil(Number(match[1]) * factor);
}
