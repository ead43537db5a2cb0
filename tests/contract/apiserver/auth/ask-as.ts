// SPDX-License-Identifier: Apache-2.0
// Requests of an administrator who impersonates another user.
import type { Answer, Ask, Harness } from "../harness.ts";

/** Sends as `user`; `line` is a method and a path, as in "GET /api". */
export function requestAs(
  api: Harness,
  given: Ask & { readonly user: string; readonly line: string },
): Promise<Answer> {
  const [method = "", path = ""] = given.line.split(" ");
  const headers = { "impersonate-user": given.user, ...given.headers };
  return api.ask(method, path, { ...given, headers });
}
