// SPDX-License-Identifier: Apache-2.0
// What does a client want of a log? Source: Kubernetes core/v1 PodLogOptions and its validation.
import { type Cause, badRequest, invalid } from "../meta/status.ts";
import { forbiddenValue, invalidValue } from "../meta/causes.ts";
import { parseTime } from "../objects/time.ts";

const ABOUT = { group: "", resource: "pods", kind: "PodLogOptions" };

/** Numbers and the least that each may be. */
const NUMBERS: readonly (readonly [name: string, least: number])[] = [
  ["tailLines", 0],
  ["limitBytes", 1],
  ["sinceSeconds", 1],
];
const VALUES: readonly string[] = [...NUMBERS.map(([name]) => name), "sinceTime"];
const FLAGS: readonly string[] = ["follow", "previous", "timestamps"];

function isFlagSet(query: URLSearchParams, name: string): boolean {
  return query.has(name) && !/^(false|0)$/i.test(query.get(name) ?? "");
}

function numberCauses(query: URLSearchParams): readonly Cause[] {
  return NUMBERS.flatMap(([name, least]) => {
    const text = query.get(name) ?? "";
    if (text === "") {
      return [];
    }
    if (!/^-?\d{1,15}$/.test(text)) {
      throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(text)}: invalid syntax`);
    }
    const why = least === 0 ? "must be greater than or equal to 0" : "must be greater than 0";
    return Number(text) < least ? [invalidValue(name, Number(text), why)] : [];
  });
}

function timeCauses(query: URLSearchParams): readonly Cause[] {
  const time = query.get("sinceTime") ?? "";
  if (time === "") {
    return [];
  }
  if (Number.isNaN(parseTime(time))) {
    throw badRequest(`parsing time ${JSON.stringify(time)}: it is no time of RFC 3339`);
  }
  const both = (query.get("sinceSeconds") ?? "") !== "";
  return both
    ? [forbiddenValue("", "at most one of `sinceTime` or `sinceSeconds` may be specified")]
    : [];
}

/** The options as a kubelet takes them. Throws StatusErrors 400 and 422. */
export function logParametersOf(query: URLSearchParams, pod: string): URLSearchParams {
  const causes = [...numberCauses(query), ...timeCauses(query)];
  if (causes.length > 0) {
    throw invalid(ABOUT, pod, causes);
  }
  const parameters = new URLSearchParams();
  for (const name of FLAGS.filter((flag) => isFlagSet(query, flag))) {
    parameters.set(name, "true");
  }
  for (const name of VALUES) {
    const value = query.get(name) ?? "";
    if (value !== "") {
      parameters.set(name, value);
    }
  }
  return parameters;
}
