// SPDX-License-Identifier: Apache-2.0
// For whom does a user act? Source: Kubernetes "User impersonation".
import type { IncomingMessage } from "node:http";
import { forbiddenTo } from "./forbidden.ts";
import {
  ANONYMOUS,
  AUTHENTICATED,
  UNAUTHENTICATED,
  type User,
  groupsOfServiceAccount,
  parseServiceAccount,
} from "./user.ts";
import type { AccessAttributes, Authorize } from "./authorizer.ts";

const PREFIX = "impersonate-";
const EXTRA = "impersonate-extra-";

/** Headers that ask for somebody's groups or the like, but name nobody. */
export class NobodyImpersonated extends Error {
  override readonly name = "NobodyImpersonated";
}

interface Impersonation {
  readonly user: string;
  readonly groups: readonly string[];
  readonly uid: string;
  readonly extra: ReadonlyMap<string, readonly string[]>;
}

/** Keys of extra headers are percent-encoded; a broken one is taken as it is. */
function extraKey(header: string): string {
  const key = header.slice(EXTRA.length);
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}

function impersonationOf(request: IncomingMessage): Impersonation {
  const headers = request.headersDistinct;
  const one = (name: string) => headers[name]?.[0] ?? "";
  const extra = Object.entries(headers).filter(([name]) => name.startsWith(EXTRA));
  return {
    user: one("impersonate-user"),
    groups: headers["impersonate-group"] ?? [],
    uid: one("impersonate-uid"),
    extra: new Map(extra.map(([name, values]) => [extraKey(name), values ?? []])),
  };
}

/** One right for everything that is asked for. */
function rightsFor(impersonation: Impersonation): readonly AccessAttributes[] {
  const impersonate = {
    verb: "impersonate",
    version: "v1",
    subresource: "",
    namespace: "",
    path: "",
  };
  const core = { ...impersonate, group: "" };
  const authentication = { ...impersonate, group: "authentication.k8s.io" };
  const account = parseServiceAccount(impersonation.user);
  const extra = [...impersonation.extra].flatMap(([subresource, values]) =>
    values.map((name) => ({ ...authentication, resource: "userextras", subresource, name })),
  );
  return [
    account === undefined
      ? { ...core, resource: "users", name: impersonation.user }
      : { ...core, resource: "serviceaccounts", ...account },
    ...impersonation.groups.map((name) => ({ ...core, resource: "groups", name })),
    ...extra,
    ...(impersonation.uid === ""
      ? []
      : [{ ...authentication, resource: "uids", name: impersonation.uid }]),
  ];
}

function groupsOf(impersonation: Impersonation): readonly string[] {
  const account = parseServiceAccount(impersonation.user);
  const groups =
    impersonation.groups.length === 0 && account !== undefined
      ? groupsOfServiceAccount(account.namespace)
      : impersonation.groups;
  if (groups.includes(UNAUTHENTICATED)) {
    return groups;
  }
  const known = impersonation.user === ANONYMOUS.name ? UNAUTHENTICATED : AUTHENTICATED;
  return groups.includes(known) ? groups : [...groups, known];
}

/** What is asked for, as Go prints a list of object references. */
function printed(impersonation: Impersonation): string {
  const extra = [...impersonation.extra].flatMap(([key, values]) =>
    values.map((value) => `{UserExtra  ${value}  authentication.k8s.io/v1  ${key}}`),
  );
  const groups = impersonation.groups.map((name) => `{Group  ${name}    }`);
  const uid =
    impersonation.uid === "" ? [] : [`{UID  ${impersonation.uid}  authentication.k8s.io/v1  }`];
  return `[${[...groups, ...extra, ...uid].join(" ")}]`;
}

/** Takes the headers away: servers behind this one get the user that came of them. */
function forget(request: IncomingMessage): void {
  for (const name of Object.keys(request.headers).filter((header) => header.startsWith(PREFIX))) {
    Reflect.deleteProperty(request.headers, name);
  }
}

/** Whom the user acts for; themselves unless they ask otherwise. Throws a StatusError 403, or NobodyImpersonated. */
export function impersonate(request: IncomingMessage, user: User, authorize: Authorize): User {
  if (!Object.keys(request.headers).some((name) => name.startsWith(PREFIX))) {
    return user;
  }
  const impersonation = impersonationOf(request);
  if (impersonation.user === "") {
    if (
      impersonation.groups.length === 0 &&
      impersonation.uid === "" &&
      impersonation.extra.size === 0
    ) {
      return user;
    }
    throw new NobodyImpersonated(
      `requested ${printed(impersonation)} without impersonating a user`,
    );
  }
  for (const attributes of rightsFor(impersonation)) {
    const { allowed, reason } = authorize(user, attributes);
    if (!allowed) {
      throw forbiddenTo(user, attributes, reason);
    }
  }
  forget(request);
  return {
    name: impersonation.user,
    groups: groupsOf(impersonation),
    ...(impersonation.uid === "" ? {} : { uid: impersonation.uid }),
    ...(impersonation.extra.size === 0 ? {} : { extra: Object.fromEntries(impersonation.extra) }),
  };
}
