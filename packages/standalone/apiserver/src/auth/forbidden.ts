// SPDX-License-Identifier: Apache-2.0
// Messages of 403 responses, which tools parse. Source: Kubernetes responsewriters.Forbidden.
import { StatusError } from "../meta/status.ts";
import type { AccessAttributes } from "./authorizer.ts";
import type { User } from "./user.ts";

function quote(text: string): string {
  return JSON.stringify(text);
}

/** Formats a list like Go's `%q`. */
export function quoteAll(texts: readonly string[]): string {
  return `[${texts.map((text) => JSON.stringify(text)).join(" ")}]`;
}

function describeAction(user: User, attributes: AccessAttributes): string {
  const { verb, group, resource, subresource, namespace, path } = attributes;
  if (path !== "") {
    return `User ${quote(user.name)} cannot ${verb} path ${quote(path)}`;
  }
  const qualifiedResource = subresource === "" ? resource : `${resource}/${subresource}`;
  const scope = namespace === "" ? "at the cluster scope" : `in the namespace ${quote(namespace)}`;
  return `User ${quote(user.name)} cannot ${verb} resource ${quote(qualifiedResource)} in API group ${quote(group)} ${scope}`;
}

type ForbiddenSubject = Pick<AccessAttributes, "group" | "resource" | "name">;

function describeSubject({ group, resource, name }: ForbiddenSubject): string {
  const qualifiedResource = group === "" ? resource : `${resource}.${group}`;
  return qualifiedResource + (name === "" || qualifiedResource === "" ? "" : ` ${quote(name)}`);
}

export function forbiddenBecause(target: ForbiddenSubject, reason: string): StatusError {
  const { group, resource, name } = target;
  const subject = describeSubject(target);
  return new StatusError({
    code: 403,
    reason: "Forbidden",
    message: subject === "" ? `forbidden: ${reason}` : `${subject} is forbidden: ${reason}`,
    details: {
      ...(name === "" ? {} : { name }),
      ...(group === "" ? {} : { group }),
      ...(resource === "" ? {} : { kind: resource }),
    },
  });
}

export function forbiddenTo(user: User, attributes: AccessAttributes, reason: string): StatusError {
  const action = describeAction(user, attributes);
  return forbiddenBecause(attributes, reason === "" ? action : `${action}: ${reason}`);
}
