// SPDX-License-Identifier: Apache-2.0
// Codec and validation of KubeVirt's annotation for the addresses of a VM's interfaces. Source: kubevirt/ipam-extensions,
// IPRequestsAnnotation.
import type { Cause, ObjectMeta } from "../kinds/kubernetes/meta.ts";
import { collectProblems, cutText, REQUESTED_ADDRESSES_MAX } from "../limits.ts";
import * as names from "../names.ts";
import { parseIp } from "../values/ip.ts";
import { isJsonObject, parseJson } from "../values/json.ts";

type Metadata = Pick<ObjectMeta, "annotations"> | undefined;

/** Requested addresses without prefix length, by interface. */
export type RequestedAddresses = ReadonlyMap<string, readonly string[]>;

function readText(metadata: Metadata): string | undefined {
  return metadata?.annotations?.[names.REQUESTED_ADDRESSES_ANNOTATION];
}

function isAddress(value: unknown): value is string {
  return typeof value === "string" && !value.includes("/") && parseIp(value) !== undefined;
}

function findProblem(name: string, value: unknown): string | undefined {
  if (!Array.isArray(value)) return `the addresses of interface "${name}" are not a list`;
  const values: readonly unknown[] = value;
  const invalid = values.find((each) => !isAddress(each));
  if (invalid !== undefined) {
    const text = JSON.stringify(invalid).slice(0, 63);
    return `${text} of interface "${name}" is not an IP address without prefix length`;
  }
  const families = new Set(values.filter(isAddress).map((each) => parseIp(each)?.version));
  if (values.length <= REQUESTED_ADDRESSES_MAX && families.size === values.length) return undefined;
  return `interface "${name}" may request one IPv4 and one IPv6 address`;
}

function listProblems(text: string): readonly string[] {
  const value = parseJson(text);
  if (!isJsonObject(value))
    return ["the value is not a JSON object with lists of addresses by interface"];
  return collectProblems(Object.entries(value), ([name, addresses]) => {
    const problem = findProblem(cutText(name), addresses);
    return problem === undefined ? [] : [problem];
  });
}

export function parseRequestedAddresses(metadata: Metadata): RequestedAddresses {
  const text = readText(metadata);
  if (text === undefined || listProblems(text).length > 0) return new Map();
  // listProblems has checked the types.
  const value = parseJson(text) as Readonly<Record<string, readonly string[]>>;
  return new Map(Object.entries(value).filter(([, addresses]) => addresses.length > 0));
}

/** Reports an invalid annotation unless its value is unchanged. `base` is the field path of `metadata`. */
export function validateRequestedAddresses(
  metadata: Metadata,
  base: string,
  old?: Metadata,
): readonly Cause[] {
  const text = readText(metadata);
  if (text === undefined || text === readText(old)) return [];
  const field = `${base}.annotations[${names.REQUESTED_ADDRESSES_ANNOTATION}]`;
  return listProblems(text).map((message) => ({ reason: "FieldValueInvalid", field, message }));
}
