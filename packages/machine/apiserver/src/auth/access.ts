// SPDX-License-Identifier: Apache-2.0
// Authentication and authorization together, and the log of used and missing rights.
import type { Clock, Logger } from "@patchbay/core/ports";
import type { Store } from "../storage/store.ts";
import { Authentication, type TokenEntry } from "./authentication.ts";
import type { AccessAttributes, Authorizer } from "./authorizer.ts";
import { withNodes } from "./node-authorizer.ts";
import { makeRbac } from "./rbac/rbac.ts";
import { AccountTokens } from "./tokens/account-tokens.ts";
import type { User } from "./user.ts";

/** Users of programs; what people may do and do is their affair. */
const PROGRAM = /^system:(serviceaccount|node):/;

/** Most lines of one process: names in paths are the client's to choose. */
const LINES_MAX = 5000;

/** As kubectl writes it, for example `virtualmachines.kubevirt.io/status`. */
function resourceText({ group, resource, subresource }: AccessAttributes): string {
  const whole = group === "" ? resource : `${resource}.${group}`;
  return subresource === "" ? whole : `${whole}/${subresource}`;
}

/** Notes the first use of each right by a program, and the first refusal of each to anybody. */
export class AccessLog {
  readonly #logger: Logger;
  readonly #seen = new Set<string>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Notes a request for a resource; paths that are no resources are of no interest. */
  note(user: User, attributes: AccessAttributes, allowed: boolean): void {
    if (attributes.path !== "" || (allowed && !PROGRAM.test(user.name))) {
      return;
    }
    const { verb, namespace, name } = attributes;
    const resource = resourceText(attributes);
    const line = `${user.name} ${verb} ${resource} ${String(allowed)}`;
    if (this.#seen.has(line) || this.#seen.size === LINES_MAX) {
      return;
    }
    this.#seen.add(line);
    const fields = { user: user.name, verb, resource, object: `${namespace}/${name}` };
    this.#logger.info(allowed ? "right used" : "right missing", fields);
  }
}

/** How users are known. */
interface AccessOptions {
  readonly tokens: readonly TokenEntry[];
  readonly tokenKeyPem?: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Users and their rights. */
interface Access {
  readonly accountTokens: AccountTokens;
  readonly authentication: Authentication;
  readonly authorizer: Authorizer;
  readonly accessLog: AccessLog;
}

/** Puts it together. Throws an AppError with APISERVER_TLS_INVALID where the key is none. */
export function makeAccess(options: AccessOptions, store: Store): Access {
  const { tokens, tokenKeyPem, clock, logger } = options;
  const accountTokens = new AccountTokens({ store, clock, keyPem: tokenKeyPem });
  return {
    accountTokens,
    authentication: new Authentication(tokens, accountTokens),
    authorizer: withNodes(makeRbac(store), store),
    accessLog: new AccessLog(logger),
  };
}
