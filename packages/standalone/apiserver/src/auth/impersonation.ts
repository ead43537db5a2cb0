// SPDX-License-Identifier: Apache-2.0
// Impersonation headers. Source: Kubernetes "User impersonation".
import type { IncomingMessage } from "node:http";
import { forbiddenTo } from "./forbidden.ts";
import {
  ANONYMOUS,
  AUTHENTICATED,
  UNAUTHENTICATED,
  type User,
  serviceAccountGroups,
  parseServiceAccount,
} from "./user.ts";
import type { AccessAttributes, Authorize } from "./authorizer.ts";

const HEADER_PREFIX = "impersonate-";
const EXTRA_HEADER_PREFIX = "impersonate-extra-";

export class MissingImpersonatedUser extends Error {
  override readonly name = "MissingImpersonatedUser";
}

interface Impersonation {
  readonly user: string;
  readonly groups: readonly string[];
  readonly uid: string;
  readonly extra: ReadonlyMap<string, readonly string[]>;
}

/** Decodes the percent-encoded key. If an escape is invalid, returns the key unchanged. */
function decodeExtraKey(header: string): string {
  const key = header.slice(EXTRA_HEADER_PREFIX.length);
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}

function parseImpersonation(request: IncomingMessage): Impersonation {
  const headers = request.headersDistinct;
  const firstValue = (name: string) => headers[name]?.[0] ?? "";
  const extra = Object.entries(headers).filter(([name]) => name.startsWith(EXTRA_HEADER_PREFIX));
  return {
    user: firstValue("impersonate-user"),
    groups: headers["impersonate-group"] ?? [],
    uid: firstValue("impersonate-uid"),
    extra: new Map(extra.map(([name, values]) => [decodeExtraKey(name), values ?? []])),
  };
}

function listRequiredRights(impersonation: Impersonation): readonly AccessAttributes[] {
  const request = {
    verb: "impersonate",
    version: "v1",
    subresource: "",
    namespace: "",
    path: "",
  };
  const coreRequest = { ...request, group: "" };
  const authentication = { ...request, group: "authentication.k8s.io" };
  const account = parseServiceAccount(impersonation.user);
  const extra = [...impersonation.extra].flatMap(([subresource, values]) =>
    values.map((name) => ({ ...authentication, resource: "userextras", subresource, name })),
  );
  return [
    account === undefined
      ? { ...coreRequest, resource: "users", name: impersonation.user }
      : { ...coreRequest, resource: "serviceaccounts", ...account },
    ...impersonation.groups.map((name) => ({ ...coreRequest, resource: "groups", name })),
    ...extra,
    ...(impersonation.uid === ""
      ? []
      : [{ ...authentication, resource: "uids", name: impersonation.uid }]),
  ];
}

function impersonatedGroups(impersonation: Impersonation): readonly string[] {
  const account = parseServiceAccount(impersonation.user);
  const groups =
    impersonation.groups.length === 0 && account !== undefined
      ? serviceAccountGroups(account.namespace)
      : impersonation.groups;
  if (groups.includes(UNAUTHENTICATED)) {
    return groups;
  }
  const impliedGroup = impersonation.user === ANONYMOUS.name ? UNAUTHENTICATED : AUTHENTICATED;
  return groups.includes(impliedGroup) ? groups : [...groups, impliedGroup];
}

/** Formats the requested groups, extra values and UID for an error message, like Go's `%v` of a list of ObjectReferences. */
function printReferences(impersonation: Impersonation): string {
  const extra = [...impersonation.extra].flatMap(([key, values]) =>
    values.map((value) => `{UserExtra  ${value}  authentication.k8s.io/v1  ${key}}`),
  );
  const groups = impersonation.groups.map((name) => `{Group  ${name}    }`);
  const uid =
    impersonation.uid === "" ? [] : [`{UID  ${impersonation.uid}  authentication.k8s.io/v1  }`];
  return `[${[...groups, ...extra, ...uid].join(" ")}]`;
}

/** Removes the impersonation headers; backends receive the user in front proxy headers instead. */
function removeHeaders(request: IncomingMessage): void {
  for (const name of Object.keys(request.headers).filter((header) =>
    header.startsWith(HEADER_PREFIX),
  )) {
    Reflect.deleteProperty(request.headers, name);
  }
}

/** Returns the impersonated user, or `user` if no headers request impersonation. @throws StatusError 403 or MissingImpersonatedUser */
export function impersonate(request: IncomingMessage, user: User, authorize: Authorize): User {
  if (!Object.keys(request.headers).some((name) => name.startsWith(HEADER_PREFIX))) {
    return user;
  }
  const impersonation = parseImpersonation(request);
  if (impersonation.user === "") {
    if (
      impersonation.groups.length === 0 &&
      impersonation.uid === "" &&
      impersonation.extra.size === 0
    ) {
      return user;
    }
    throw new MissingImpersonatedUser(
      `requested ${printReferences(impersonation)} without impersonating a user`,
    );
  }
  for (const attributes of listRequiredRights(impersonation)) {
    const { allowed, reason } = authorize(user, attributes);
    if (!allowed) {
      throw forbiddenTo(user, attributes, reason);
    }
  }
  removeHeaders(request);
  return {
    name: impersonation.user,
    groups: impersonatedGroups(impersonation),
    ...(impersonation.uid === "" ? {} : { uid: impersonation.uid }),
    ...(impersonation.extra.size === 0 ? {} : { extra: Object.fromEntries(impersonation.extra) }),
  };
}
