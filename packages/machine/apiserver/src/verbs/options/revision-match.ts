// SPDX-License-Identifier: Apache-2.0
// May a list or watch say what its resourceVersion means? Source: Kubernetes metainternalversion ValidateListOptions.
import type { Cause } from "../../meta/status.ts";
import { forbiddenValue, unsupportedValue } from "../../meta/causes.ts";
import { refuseOptions } from "./write-options.ts";

const FIELD = "resourceVersionMatch";
const MATCHES: readonly string[] = ["Exact", "NotOlderThan"];

function causesOf(match: string, query: URLSearchParams, isWatch: boolean): Cause[] {
  const revision = query.get("resourceVersion") ?? "";
  const rules: readonly (readonly [boolean, string])[] = [
    [isWatch, `${FIELD} is forbidden for watch`],
    [revision === "", `${FIELD} is forbidden unless resourceVersion is provided`],
    [(query.get("continue") ?? "") !== "", `${FIELD} is forbidden when continue is provided`],
  ];
  const exactOfAny = match === "Exact" && revision === "0";
  return [
    ...rules.filter(([broken]) => broken).map(([, why]) => forbiddenValue(FIELD, why)),
    ...(MATCHES.includes(match) ? [] : [unsupportedValue(FIELD, match, [...MATCHES, ""])]),
    ...(exactOfAny
      ? [forbiddenValue(FIELD, `${FIELD} "exact" is forbidden for resourceVersion "0"`)]
      : []),
  ];
}

/** Refuses a match where it says nothing. Throws a StatusError 422. */
export function checkRevisionMatch(query: URLSearchParams, isWatch: boolean): void {
  const match = query.get(FIELD) ?? "";
  if (match !== "") {
    refuseOptions("ListOptions", causesOf(match, query, isWatch));
  }
}
