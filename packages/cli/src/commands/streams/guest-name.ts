// SPDX-License-Identifier: Apache-2.0
// Parses the guest and the user in an argument. Also accepts type/name.namespace, the form before KubeVirt v1.2. Source: virtctl ssh.
import { AppError } from "@patchbay/base";
import type { TargetQuery } from "../../session.ts";

export interface GuestName extends TargetQuery {
  readonly namespace?: string;
  readonly user?: string;
}

const VM_KINDS = ["vm", "vms", "virtualmachine", "virtualmachines"];
const VMI_KINDS = ["vmi", "vmis", "virtualmachineinstance", "virtualmachineinstances"];
/** Pattern of a name. A program cannot mistake a matching name for a flag, and a shell needs no quotes for it. Source: RFC 1123. */
const NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;
const NAMESPACE = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
/** Pattern of a user name. Source: useradd(8), and characters that directory services allow in user names. */
const USER = /^[A-Za-z0-9_][-A-Za-z0-9_.+\\]{0,254}$/;

const SYNTAX_HINT = "use [user@]vm/NAME[/NAMESPACE], or vmi/NAME for a VMI without a VM";

function reject(text: string, problem: string): never {
  throw new AppError("FLAG_INVALID", {
    flag: "<vm>",
    reason: `${JSON.stringify(text)}: ${problem}`,
  });
}

function splitUser(text: string): readonly [user: string | undefined, rest: string] {
  const separator = text.lastIndexOf("@");
  return separator === -1
    ? [undefined, text]
    : [text.slice(0, separator), text.slice(separator + 1)];
}

function splitKind(text: string, rest: string): readonly [kind: string, place: readonly string[]] {
  const parts = rest.split("/");
  const [first = ""] = parts;
  if (parts.length === 1) return ["vm", parts];
  if (parts.length > 3 || ![...VM_KINDS, ...VMI_KINDS].includes(first)) reject(text, SYNTAX_HINT);
  return [first, parts.slice(1)];
}

/** Splits `name.namespace` at its only dot. A name with several dots, or with a namespace after `/`, remains whole. */
function splitNamespace([name = "", namespace]: readonly string[]): readonly [
  string,
  string | undefined,
] {
  if (namespace !== undefined) return [name, namespace];
  const [first = "", second, ...more] = name.split(".");
  return more.length > 0 ? [name, undefined] : [first, second];
}

export function parseGuestName(text: string): GuestName {
  const [user, rest] = splitUser(text);
  const [kind, parts] = splitKind(text, rest);
  const [name, namespace] = splitNamespace(parts);
  if (!NAME.test(name)) reject(text, `the name is invalid; ${SYNTAX_HINT}`);
  if (namespace !== undefined && !NAMESPACE.test(namespace))
    reject(text, `the namespace is invalid; ${SYNTAX_HINT}`);
  return {
    name,
    isVmi: VMI_KINDS.includes(kind),
    ...(namespace !== undefined && { namespace }),
    ...(user !== undefined && { user: checkUser(user) }),
  };
}

/** Validates a user name, which becomes an argument of other programs. @throws AppError with FLAG_INVALID */
export function checkUser(user: string): string {
  return USER.test(user) ? user : reject(user, "the user name is invalid");
}
