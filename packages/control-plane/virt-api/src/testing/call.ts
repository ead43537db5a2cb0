// SPDX-License-Identifier: Apache-2.0
// A request to a subresource, without HTTP.
import type { Call } from "../http/calls.ts";
import { KEY } from "./objects.ts";

/** Builds a call, by default of user alice on the VM `ns/vm`. */
export function aCall(part: Partial<Call> = {}): Call {
  const user = { name: "alice", groups: ["shared"] };
  return { ...KEY, user, dryRun: false, query: new URLSearchParams(), body: undefined, ...part };
}
