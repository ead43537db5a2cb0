// SPDX-License-Identifier: Apache-2.0
// Patchbay's results for the rows of KubeVirt's own test tables.
import type { Iface, Network, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { withNics } from "../nics/nics.ts";

export type Case =
  | { readonly kind: "same"; readonly run: Run }
  | { readonly kind: "ours"; readonly run: Run; readonly value: unknown; readonly why: string };

export type Cases = Readonly<Record<string, Case>>;

// Rows differ between areas; each run declares the input it reads.
type Run = (input: never) => unknown;

export function same(run: Run): Case {
  return { kind: "same", run };
}

export function ours(why: string, value: unknown, run: Run): Case {
  return { kind: "ours", run, value, why };
}

export interface RowNics {
  readonly interfaces: readonly Iface[];
  /** Default: a network of the same name for each interface. */
  readonly networks?: readonly Network[] | null;
}

function networkFor({ name }: Iface): Network {
  return name === "default" ? { name, pod: {} } : { name, multus: { networkName: "nad" } };
}

export function vmiOf(
  { interfaces, networks }: RowNics,
  status: VmiStatus = {},
): VirtualMachineInstance {
  const vmi = aVmi({ status: { phase: "Running", ...status } });
  const joined = networks ?? interfaces.map(networkFor);
  return { ...vmi, spec: withNics(vmi.spec, joined, interfaces) };
}
