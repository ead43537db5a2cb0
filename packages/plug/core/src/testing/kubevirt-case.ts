// SPDX-License-Identifier: Apache-2.0
// How Patchbay answers one row of KubeVirt's own test tables.
import type { Iface, Network, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { withNics } from "../spec/nics.ts";

/** The answer to a row. */
export type Case =
  /** KubeVirt's. */
  | { readonly kind: "same"; readonly run: Run }
  | { readonly kind: "ours"; readonly run: Run; readonly value: unknown; readonly why: string };

/** Cases of one area, by the name of the row. */
export type Cases = Readonly<Record<string, Case>>;

// Rows differ from area to area; each run says what it reads.
type Run = (input: never) => unknown;

export function same(run: Run): Case {
  return { kind: "same", run };
}

export function ours(why: string, value: unknown, run: Run): Case {
  return { kind: "ours", run, value, why };
}

/** NICs as rows write them. */
export interface RowNics {
  readonly interfaces: readonly Iface[];
  /** Default: a network of the same name for each. */
  readonly networks?: readonly Network[] | null;
}

function networkFor({ name }: Iface): Network {
  return name === "default" ? { name, pod: {} } : { name, multus: { networkName: "nad" } };
}

/** A running VMI with the NICs of a row. */
export function vmiOf(
  { interfaces, networks }: RowNics,
  status: VmiStatus = {},
): VirtualMachineInstance {
  const vmi = aVmi({ status: { phase: "Running", ...status } });
  const joined = networks ?? interfaces.map(networkFor);
  return { ...vmi, spec: withNics(vmi.spec, joined, interfaces) };
}
