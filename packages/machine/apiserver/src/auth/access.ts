// SPDX-License-Identifier: Apache-2.0
// Everything that knows users and their rights, put together.
import type { Clock, Logger } from "@patchbay/core/ports";
import type { Store } from "../storage/store.ts";
import { AccessLog } from "./access-log.ts";
import { AccountTokens } from "./tokens/account-tokens.ts";
import { Authentication, type TokenEntry } from "./authentication.ts";
import { withNodes } from "./node/node-authorizer.ts";
import { makeRbac } from "./rbac/rbac.ts";
import type { Authorizer } from "./authorizer.ts";

/** How users are known. */
export interface AccessOptions {
  readonly tokens: readonly TokenEntry[];
  readonly tokenKeyPem?: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Users and their rights. */
export interface Access {
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
