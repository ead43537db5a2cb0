// SPDX-License-Identifier: Apache-2.0
// Query parameters of lists and watches. Source: Kubernetes metainternalversion ValidateListOptions.
import { type Cause, badRequest, tooLargeResourceVersion } from "../../meta/status.ts";
import { forbiddenValue, unsupportedValue } from "../../meta/causes.ts";
import { rejectInvalidOptions } from "./write-options.ts";

/** Returns undefined for a missing or empty parameter. Throws a StatusError 400 if the parameter is not a revision. */
export function parseRevision(text: string | null): number | undefined {
  if (text === null || text === "") {
    return undefined;
  }
  if (!/^\d+$/.test(text)) {
    throw badRequest(
      `Invalid value: "${text}": strconv.ParseUint: parsing "${text}": invalid syntax`,
    );
  }
  return Number(text);
}

/** Throws a StatusError 504 if the store has not reached the revision. */
export function assertRevisionReached(requested: number, current: number): void {
  if (requested > current) {
    throw tooLargeResourceVersion(requested, current);
  }
}

/** Returns 0 for a missing or empty parameter. Throws a StatusError 400 if the parameter is not a number. */
export function parseCount(text: string | null): number {
  if (text !== null && text !== "" && !/^\d+$/.test(text)) {
    throw badRequest(`strconv.ParseInt: parsing "${text}": invalid syntax`);
  }
  return Number(text ?? 0);
}

/** Returns true for `1`, `true` and an empty value. */
export function parseFlag(text: string | null): boolean {
  return text === "" || text === "1" || text === "true";
}

const MATCH_FIELD = "resourceVersionMatch";
const KNOWN_MATCHES: readonly string[] = ["Exact", "NotOlderThan"];

function revisionMatchCauses(match: string, query: URLSearchParams, isWatch: boolean): Cause[] {
  const revision = query.get("resourceVersion") ?? "";
  const rules: readonly (readonly [boolean, string])[] = [
    [isWatch, `${MATCH_FIELD} is forbidden for watch`],
    [revision === "", `${MATCH_FIELD} is forbidden unless resourceVersion is provided`],
    [(query.get("continue") ?? "") !== "", `${MATCH_FIELD} is forbidden when continue is provided`],
  ];
  const isExactZero = match === "Exact" && revision === "0";
  return [
    ...rules
      .filter(([isBroken]) => isBroken)
      .map(([, message]) => forbiddenValue(MATCH_FIELD, message)),
    ...(KNOWN_MATCHES.includes(match)
      ? []
      : [unsupportedValue(MATCH_FIELD, match, [...KNOWN_MATCHES, ""])]),
    ...(isExactZero
      ? [forbiddenValue(MATCH_FIELD, `${MATCH_FIELD} "exact" is forbidden for resourceVersion "0"`)]
      : []),
  ];
}

export function checkRevisionMatch(query: URLSearchParams, isWatch: boolean): void {
  const match = query.get(MATCH_FIELD) ?? "";
  if (match !== "") {
    rejectInvalidOptions("ListOptions", revisionMatchCauses(match, query, isWatch));
  }
}
