// SPDX-License-Identifier: Apache-2.0
// What does a client want of a watch: from which revision, with bookmarks, for how long?
import { forbiddenValue } from "../../meta/causes.ts";
import { invalid } from "../../meta/status.ts";
import type { Call } from "../call.ts";
import { parseCount, parseFlag, parseRevision } from "../options/options.ts";
import { checkRevisionMatch } from "../options/revision-match.ts";

/** A watch without timeoutSeconds ends after this long: clients come again. Source: kube-apiserver min-request-timeout. */
const DEFAULT_TIMEOUT_SECONDS = 1800;

/** What the query of a watch asks for. */
export interface WatchOptions {
  /** What came after it is told; 0 begins with every object that is there. */
  readonly revision: number;
  readonly bookmarks: boolean;
  readonly timeoutMs: number;
}

/** Reads the query. Throws a StatusError where a value is none, or is not supported. */
export function parseWatchOptions(call: Call): WatchOptions {
  const { query } = call;
  if (query.has("sendInitialEvents")) {
    throw invalid({ group: "meta.k8s.io", resource: "listoptions", kind: "ListOptions" }, "", [
      forbiddenValue(
        "sendInitialEvents",
        "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
      ),
    ]);
  }
  checkRevisionMatch(query, true);
  const seconds = parseCount(query.get("timeoutSeconds"));
  return {
    revision: parseRevision(query.get("resourceVersion")) ?? 0,
    bookmarks: parseFlag(query.get("allowWatchBookmarks") ?? "false"),
    timeoutMs: (seconds > 0 ? seconds : DEFAULT_TIMEOUT_SECONDS) * 1000,
  };
}
