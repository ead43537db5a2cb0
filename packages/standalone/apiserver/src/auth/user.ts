// SPDX-License-Identifier: Apache-2.0
import type { Fields } from "../objects/json.ts";

export const AUTHENTICATED = "system:authenticated";

export const UNAUTHENTICATED = "system:unauthenticated";

export interface User {
  readonly name: string;
  readonly groups: readonly string[];
  /** Unique ID. It changes if an account is deleted and created again under the same name. */
  readonly uid?: string;
  readonly impersonator?: User;
  /** Extra attributes, for example the pod that a token is bound to. */
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

export const ANONYMOUS: User = { name: "system:anonymous", groups: [UNAUTHENTICATED] };

const ACCOUNT_USER_PREFIX = "system:serviceaccount:";
const ACCOUNTS_GROUP = "system:serviceaccounts";

interface ServiceAccountName {
  readonly namespace: string;
  readonly name: string;
}

/** Returns the account's user name. Source: Kubernetes apiserver serviceaccount/util. */
export function serviceAccountUser({ namespace, name }: ServiceAccountName): string {
  return `${ACCOUNT_USER_PREFIX}${namespace}:${name}`;
}

export function parseServiceAccount(user: string): ServiceAccountName | undefined {
  if (!user.startsWith(ACCOUNT_USER_PREFIX)) {
    return undefined;
  }
  const [namespace = "", name = "", ...rest] = user.slice(ACCOUNT_USER_PREFIX.length).split(":");
  return namespace === "" || name === "" || rest.length > 0 ? undefined : { namespace, name };
}

export function serviceAccountGroups(namespace: string): readonly string[] {
  return [ACCOUNTS_GROUP, `${ACCOUNTS_GROUP}:${namespace}`];
}

/** Converts the user to UserInfo. Source: authentication/v1. */
export function toUserInfo(user: User): Fields {
  return {
    username: user.name,
    ...(user.uid === undefined ? {} : { uid: user.uid }),
    groups: user.groups,
    ...(user.extra === undefined ? {} : { extra: user.extra }),
  };
}
