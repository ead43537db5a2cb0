// SPDX-License-Identifier: Apache-2.0
// The rows: what Multus, its dynamic networks controller and CNI's own library do, transcribed or observed, as data.
// `source` names the files that were read: `dynctl` is multus-dynamic-networks-controller, `nad-client` the
// network-attachment-definition-client, all of k8snetworkplumbingwg; `cni` is containernetworking/cni.
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface Row {
  readonly area: string;
  /** The row's key. */
  readonly name: string;
  readonly source: string;
  readonly input: Fields;
  readonly expected: Fields;
}

/** Fields whose shape the row's area gives. */
export type Fields = Readonly<Record<string, unknown>>;

export function readRows(): readonly Row[] {
  const path = join(import.meta.dirname, "__golden__/cni.json");
  return JSON.parse(readFileSync(path, "utf8")) as readonly Row[]; // the table's own format
}

/** Determines our value for each field of the row's `expected`. */
export type Judge = (row: Row) => Fields | Promise<Fields>;
