// SPDX-License-Identifier: Apache-2.0
// What a client asks, taken out of HTTP.
import { AppError, messageOf } from "@patchbay/core";
import type { Request } from "express";
import type { ClientAuthority } from "@patchbay/daemon";
import { findRemoteUser } from "../callers/front-proxy.ts";
import type { User } from "../callers/user.ts";
import type { Call } from "../routes/call.ts";

const NOBODY: User = { name: "", groups: [] };

/**
 * The body of a request that was read as text; undefined when there is none.
 * @throws AppError with API_MALFORMED when it is no JSON
 */
export function parseBody(request: Request): unknown {
  const text: unknown = request.body;
  if (typeof text !== "string" || text.trim() === "") return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    const reason = messageOf(cause);
    throw new AppError("API_MALFORMED", { what: "the request body", reason }, { cause });
  }
}

function isDryRun(request: Request, body: unknown): boolean {
  const inBody = typeof body === "object" && body !== null && "dryRun" in body ? body.dryRun : [];
  return [request.query["dryRun"], inBody].flat().includes("All");
}

function parameterOf(request: Request, name: string): string {
  const value = request.params[name];
  return typeof value === "string" ? value : "";
}

/** The user is whom the front proxy brings: without one nobody comes so far. */
export function toCall(request: Request, frontProxy: ClientAuthority | undefined): Call {
  const body = parseBody(request);
  return {
    namespace: parameterOf(request, "namespace"),
    name: parameterOf(request, "name"),
    user: findRemoteUser(frontProxy, request) ?? NOBODY,
    dryRun: isDryRun(request, body),
    query: new URL(request.url, "http://virt-api").searchParams,
    body,
  };
}
