// SPDX-License-Identifier: Apache-2.0
// Compares the manifests' rights with their use in the API server's log.
import { isJsonObject } from "@patchbay/api/json";
import type { Right } from "@patchbay/manifests/testing";

/** Findings on the granted users; each entry as `user verb resource`, sorted. */
export interface RightsFinding {
  /** Granted, but never used. */
  readonly unused: readonly string[];
  /** Used, but granted by another role. */
  readonly foreign: readonly string[];
  /** Requested and denied. */
  readonly missing: readonly string[];
}

function printRight({ user, verb, resource }: Right): string {
  return `${user} ${verb} ${resource}`;
}

/** Rights in log lines with that message. */
function rightsInLog(log: string, message: string): readonly Right[] {
  return log
    .split("\n")
    .filter((line) => line.includes(`"${message}"`))
    .map((line): unknown => JSON.parse(line))
    .filter(isJsonObject)
    .map(({ user, verb, resource }) => ({
      user: String(user),
      verb: String(verb),
      resource: String(resource),
    }));
}

function missingIn(entries: ReadonlySet<string>, others: readonly Right[]): readonly string[] {
  return [...new Set(others.map(printRight))].filter((entry) => !entries.has(entry)).sort();
}

/** Compares grants with the API server's log, which has each use and each denial at least once. */
export function judgeRights(granted: readonly Right[], log: string): RightsFinding {
  const users = new Set(granted.map(({ user }) => user));
  const ofUsers = (message: string): readonly Right[] =>
    rightsInLog(log, message).filter(({ user }) => users.has(user));
  const used = ofUsers("right used");
  return {
    unused: missingIn(new Set(used.map(printRight)), granted),
    foreign: missingIn(new Set(granted.map(printRight)), used),
    missing: missingIn(new Set(), ofUsers("right missing")),
  };
}
