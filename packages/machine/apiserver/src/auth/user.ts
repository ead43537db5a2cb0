// SPDX-License-Identifier: Apache-2.0
// Users, groups, and user names of service accounts.
import type { Fields } from "../objects/json.ts";

/** Group of everyone whom the server knows. */
export const AUTHENTICATED = "system:authenticated";

/** Group of everyone whom the server does not know. */
export const UNAUTHENTICATED = "system:unauthenticated";

/** A user as authentication found them. */
export interface User {
  readonly name: string;
  readonly groups: readonly string[];
  /** Tells users of one name apart, where the name was given anew. */
  readonly uid?: string;
  /** What else is known, for example the pod that a token is bound to. */
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** Who comes without credentials. */
export const ANONYMOUS: User = { name: "system:anonymous", groups: [UNAUTHENTICATED] };

const PREFIX = "system:serviceaccount:";
const GROUP = "system:serviceaccounts";

/** Where a service account lives. */
interface ServiceAccountName {
  readonly namespace: string;
  readonly name: string;
}

/** The user name of an account. */
export function userOfServiceAccount({ namespace, name }: ServiceAccountName): string {
  return `${PREFIX}${namespace}:${name}`;
}

/** The account that a user name belongs to; undefined for other users. */
export function parseServiceAccount(user: string): ServiceAccountName | undefined {
  if (!user.startsWith(PREFIX)) {
    return undefined;
  }
  const [namespace = "", name = "", ...rest] = user.slice(PREFIX.length).split(":");
  return namespace === "" || name === "" || rest.length > 0 ? undefined : { namespace, name };
}

/** Groups that every account of a namespace is in. */
export function groupsOfServiceAccount(namespace: string): readonly string[] {
  return [GROUP, `${GROUP}:${namespace}`];
}

/** A user as reviews of tokens and of admission show them. Source: authentication/v1 UserInfo. */
export function userInfo(user: User): Fields {
  return {
    username: user.name,
    ...(user.uid === undefined ? {} : { uid: user.uid }),
    groups: user.groups,
    ...(user.extra === undefined ? {} : { extra: user.extra }),
  };
}
