// SPDX-License-Identifier: Apache-2.0
import type { Clock, Logger } from "@patchbay/base";
import type { Store } from "../storage/store.ts";
import { Authentication, type TokenEntry } from "./authentication.ts";
import type { AccessAttributes, Authorizer } from "./authorizer.ts";
import { withNodeAuthorizer } from "./node-authorizer.ts";
import { makeRbac } from "./rbac/rbac.ts";
import { AccountTokens } from "./tokens/account-tokens.ts";
import type { User } from "./user.ts";

/** Matches user names of programs: service accounts and nodes. Only for them is the use of a right logged; denials are for all users. */
const PROGRAM_USER = /^system:(serviceaccount|node):/;

/** Maximum number of logged rights. The rights are stored, so that each is logged once; without a limit, they could fill the memory. */
const LOG_LINES_MAX = 5000;

/** Returns, for example, `virtualmachines.kubevirt.io/status`. */
function printResource({ group, resource, subresource }: AccessAttributes): string {
  const qualifiedResource = group === "" ? resource : `${resource}.${group}`;
  return subresource === "" ? qualifiedResource : `${qualifiedResource}/${subresource}`;
}

/** Logs the first use of each right by a program, and the first denial of each right to a user. */
export class AccessLog {
  readonly #logger: Logger;
  readonly #logged = new Set<string>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  record(user: User, attributes: AccessAttributes, allowed: boolean): void {
    if (attributes.path !== "" || (allowed && !PROGRAM_USER.test(user.name))) {
      return;
    }
    const { verb, namespace, name } = attributes;
    const resource = printResource(attributes);
    const line = `${user.name} ${verb} ${resource} ${String(allowed)}`;
    if (this.#logged.has(line) || this.#logged.size === LOG_LINES_MAX) {
      return;
    }
    this.#logged.add(line);
    const fields = { user: user.name, verb, resource, object: `${namespace}/${name}` };
    this.#logger.info(allowed ? "right used" : "right missing", fields);
  }
}

interface AccessOptions {
  readonly tokens: readonly TokenEntry[];
  readonly tokenKeyPem?: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Access {
  readonly accountTokens: AccountTokens;
  readonly authentication: Authentication;
  readonly authorizer: Authorizer;
  readonly accessLog: AccessLog;
}

/** Throws an AppError APISERVER_TLS_INVALID if the token key is invalid. */
export function makeAccess(options: AccessOptions, store: Store): Access {
  const { tokens, tokenKeyPem, clock, logger } = options;
  const accountTokens = new AccountTokens({ store, clock, keyPem: tokenKeyPem });
  return {
    accountTokens,
    authentication: new Authentication(tokens, accountTokens),
    authorizer: withNodeAuthorizer(makeRbac(store), store),
    accessLog: new AccessLog(logger),
  };
}
