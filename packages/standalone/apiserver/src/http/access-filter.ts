// SPDX-License-Identifier: Apache-2.0
import type { IncomingMessage } from "node:http";
import type { NextFunction, Request, Response } from "express";
import type { AccessLog } from "../auth/access.ts";
import type { Authentication } from "../auth/authentication.ts";
import type { Authorizer } from "../auth/authorizer.ts";
import { forbiddenTo } from "../auth/forbidden.ts";
import { MissingImpersonatedUser, impersonate } from "../auth/impersonation.ts";
import { type RequestLine, toAccessAttributes } from "../auth/request-attributes.ts";
import { ANONYMOUS, type User } from "../auth/user.ts";
import type { UserQuotas } from "../limits/limits.ts";
import { unauthorized, unknownPath } from "../meta/status.ts";
import { isMetadataOnly } from "./response/accept.ts";

export interface AccessFilterDeps {
  readonly authentication: Authentication;
  readonly authorizer: Authorizer;
  readonly accessLog: AccessLog;
  readonly quotas: UserQuotas;
}

const USERS = new WeakMap<IncomingMessage, User>();

export function authenticatedUser(request: IncomingMessage): User {
  const user = USERS.get(request);
  if (user === undefined) {
    throw unauthorized();
  }
  return user;
}

/** Parses the request line. Rejects paths that URL parsing changes, so that the server authorizes the same path that it serves. */
function toRequestLine(request: Request): RequestLine {
  const { method, originalUrl } = request;
  const { pathname, searchParams } = new URL(originalUrl, "https://localhost");
  if (pathname !== originalUrl.split("?")[0]) {
    throw unknownPath();
  }
  return { method, path: pathname, query: searchParams };
}

function checkAccess(request: Request, client: User, deps: AccessFilterDeps): User {
  const { authorize } = deps.authorizer;
  if (client.name !== ANONYMOUS.name) {
    deps.quotas.addConnection(client, request.socket);
  }
  const impersonated = impersonate(request, client, authorize);
  const user = impersonated === client ? client : { ...impersonated, impersonator: client };
  const attributes = {
    ...toAccessAttributes(toRequestLine(request)),
    ...(isMetadataOnly(request.headers.accept ?? "") && { isMetadataOnly: true }),
  };
  const { allowed, reason, isAllowedByPods: isAllowedByPods = false } = authorize(user, attributes);
  if (!isAllowedByPods) {
    deps.accessLog.record(user, attributes, allowed); // The log omits requests that only the node authorizer allows.
  }
  if (!allowed) {
    throw forbiddenTo(user, attributes, reason);
  }
  return user;
}

export function accessFilter(deps: AccessFilterDeps) {
  return async (request: Request, response: Response, next: NextFunction): Promise<void> => {
    try {
      const client = await deps.authentication.authenticate(request);
      if (!(await deps.quotas.waitForRate(client, response))) return;
      USERS.set(request, checkAccess(request, client, deps));
    } catch (error) {
      if (error instanceof MissingImpersonatedUser) {
        const text = `Internal Server Error: ${JSON.stringify(request.originalUrl)}: ${error.message}\n`;
        response.status(500).type("text/plain").send(text);
        return;
      }
      throw error;
    }
    next();
  };
}
