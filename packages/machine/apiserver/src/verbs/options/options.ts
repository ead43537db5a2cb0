// SPDX-License-Identifier: Apache-2.0
// The query parameters and options that several verbs share.
import { badRequest, tooLargeResourceVersion } from "../../meta/status.ts";

/** A resourceVersion as a number; undefined where none was given. Throws a StatusError 400. */
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

/** Refuses a revision that the store has not reached. Throws a StatusError 504. */
export function checkReached(asked: number, current: number): void {
  if (asked > current) {
    throw tooLargeResourceVersion(asked, current);
  }
}

/** A number of things or seconds; 0 where none was given. Throws a StatusError 400. */
export function parseCount(text: string | null): number {
  if (text !== null && text !== "" && !/^\d+$/.test(text)) {
    throw badRequest(`strconv.ParseInt: parsing "${text}": invalid syntax`);
  }
  return Number(text ?? 0);
}

/** A flag; `1`, `true` and an empty value mean yes. */
export function parseFlag(text: string | null): boolean {
  return text === "" || text === "1" || text === "true";
}
