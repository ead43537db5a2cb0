// SPDX-License-Identifier: Apache-2.0
// Which user is a service account? Source: Kubernetes apiserver serviceaccount/util.

const PREFIX = "system:serviceaccount:";
const GROUP = "system:serviceaccounts";

/** Where a service account lives. */
export interface ServiceAccountName {
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
