// SPDX-License-Identifier: Apache-2.0
// Filter in front of all routes: authentication, impersonation, authorization.
import type { IncomingMessage } from "node:http";
import type { NextFunction, Request, Response } from "express";
import type { AccessLog } from "../auth/access.ts";
import type { Authentication } from "../auth/authentication.ts";
import type { Authorizer } from "../auth/authorizer.ts";
import { forbiddenTo } from "../auth/forbidden.ts";
import { NobodyImpersonated, impersonate } from "../auth/impersonation.ts";
import { type RequestLine, attributesOf } from "../auth/request-attributes.ts";
import { ANONYMOUS, type User } from "../auth/user.ts";
import type { Shares } from "../limits/limits.ts";
import { unauthorized, unknownPath } from "../meta/status.ts";

/** Who says who asks, who says whether they may, and where that is counted and written down. */
export interface GateDeps {
  readonly authentication: Authentication;
  readonly authorizer: Authorizer;
  readonly accessLog: AccessLog;
  readonly shares: Shares;
}

/** Users by request, once they may do what they ask for. */
const USERS = new WeakMap<IncomingMessage, User>();

/** The user of a request that has passed. */
export function userOf(request: IncomingMessage): User {
  const user = USERS.get(request);
  if (user === undefined) {
    throw unauthorized();
  }
  return user;
}

/** Refuses paths that could be read in two ways: what is asked about here must be what is served. */
function lineOf(request: Request): RequestLine {
  const { method, originalUrl } = request;
  const { pathname, searchParams } = new URL(originalUrl, "https://localhost");
  if (pathname !== originalUrl.split("?")[0]) {
    throw unknownPath();
  }
  return { method, path: pathname, query: searchParams };
}

async function pass(request: Request, deps: GateDeps): Promise<User> {
  const { authorize } = deps.authorizer;
  const known = await deps.authentication.find(request);
  if (known.name !== ANONYMOUS.name) {
    deps.shares.addConnection(known.name, request.socket);
  }
  const user = impersonate(request, known, authorize);
  const attributes = attributesOf(lineOf(request));
  const { allowed, reason, isByPods = false } = authorize(user, attributes);
  if (!isByPods) {
    deps.accessLog.note(user, attributes, allowed); // the log is compared with roles
  }
  if (!allowed) {
    throw forbiddenTo(user, attributes, reason);
  }
  return user;
}

/** Lets requests pass, or answers 401 and 403. */
export function gate(deps: GateDeps) {
  return async (request: Request, response: Response, next: NextFunction): Promise<void> => {
    try {
      USERS.set(request, await pass(request, deps));
    } catch (error) {
      if (error instanceof NobodyImpersonated) {
        const text = `Internal Server Error: ${JSON.stringify(request.originalUrl)}: ${error.message}\n`;
        response.status(500).type("text/plain").send(text);
        return;
      }
      throw error;
    }
    next();
  };
}
