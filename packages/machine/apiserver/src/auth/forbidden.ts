// SPDX-License-Identifier: Apache-2.0
// Texts of 403 responses, which tools parse. Source: Kubernetes responsewriters.Forbidden.
import { StatusError } from "../meta/status.ts";
import type { AccessAttributes } from "./authorizer.ts";
import type { User } from "./user.ts";

function quoted(text: string): string {
  return JSON.stringify(text);
}

/** A list as Go prints it with %q. */
export function quoteAll(texts: readonly string[]): string {
  return `[${texts.map((text) => JSON.stringify(text)).join(" ")}]`;
}

function whatOf(user: User, attributes: AccessAttributes): string {
  const { verb, group, resource, subresource, namespace, path } = attributes;
  if (path !== "") {
    return `User ${quoted(user.name)} cannot ${verb} path ${quoted(path)}`;
  }
  const whole = subresource === "" ? resource : `${resource}/${subresource}`;
  const scope = namespace === "" ? "at the cluster scope" : `in the namespace ${quoted(namespace)}`;
  return `User ${quoted(user.name)} cannot ${verb} resource ${quoted(whole)} in API group ${quoted(group)} ${scope}`;
}

/** What a refusal is about; all empty for paths that are no resources. */
type About = Pick<AccessAttributes, "group" | "resource" | "name">;

function subjectOf({ group, resource, name }: About): string {
  const qualified = group === "" ? resource : `${resource}.${group}`;
  return qualified + (name === "" || qualified === "" ? "" : ` ${quoted(name)}`);
}

/** 403 with a text of one's own. */
export function forbiddenBecause(about: About, why: string): StatusError {
  const { group, resource, name } = about;
  const subject = subjectOf(about);
  return new StatusError({
    code: 403,
    reason: "Forbidden",
    message: subject === "" ? `forbidden: ${why}` : `${subject} is forbidden: ${why}`,
    details: {
      ...(name === "" ? {} : { name }),
      ...(group === "" ? {} : { group }),
      ...(resource === "" ? {} : { kind: resource }),
    },
  });
}

/** 403 for a user who may not do it. */
export function forbiddenTo(user: User, attributes: AccessAttributes, reason: string): StatusError {
  const what = whatOf(user, attributes);
  return forbiddenBecause(attributes, reason === "" ? what : `${what}: ${reason}`);
}
