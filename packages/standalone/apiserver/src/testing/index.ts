// SPDX-License-Identifier: Apache-2.0
// Extensions that make the server behave like a cluster's.
import { randomInt } from "node:crypto";
import type { ServerExtensions } from "../extensions.ts";
import { recordManagers, strictAdmission } from "./strict/strict-admission.ts";
import { makeStrictWatchBehavior } from "./strict/strict-watch-behavior.ts";

/** Records field managers, so that objects are as large as on a cluster. */
export const FIELD_MANAGERS: ServerExtensions = { wrapAdmission: recordManagers };

const MILLION = 1_000_000;

/**
 * As strict as a cluster's API server. Adds nulls, defaults and field managers to objects. Rejects image volumes.
 * Requires a right on the owner for `blockOwnerDeletion`. Sends no bookmarks on idle watches and ends watches after
 * seconds. Rejects the first watch of each user and selector that resumes from before the start.
 */
export const STRICT: ServerExtensions = {
  wrapAdmission: strictAdmission,
  makeWatchBehavior: (startRevision) =>
    makeStrictWatchBehavior(startRevision, () => randomInt(MILLION) / MILLION),
};
