// SPDX-License-Identifier: Apache-2.0
// One request to a subresource, as the routes see it.
import type { User } from "../callers/user.ts";
import type { Answer } from "../http/answers.ts";

/** Namespace and name are those of the path, and so the key of the VM or VMI. */
export interface Call {
  readonly namespace: string;
  readonly name: string;
  readonly user: User;
  /** Nothing may be changed: `?dryRun=All`, or `dryRun: ["All"]` in the body. */
  readonly dryRun: boolean;
  readonly query: URLSearchParams;
  /** The parsed body; undefined when there is none. */
  readonly body: unknown;
}

/** Answers one request; what it throws becomes an answer too, by the error's code. */
export type CallHandler = (call: Call) => Promise<Answer>;
