// SPDX-License-Identifier: Apache-2.0
// Which writes need virt-api's word, where the API server can tell? Source: KEP-3716, admission webhook match conditions.
import { names } from "@patchbay/api";

/** One condition; all of a webhook's must hold for it to be asked. */
export interface MatchCondition {
  readonly name: string;
  /** CEL over `object`, `oldObject` and `request`. */
  readonly expression: string;
}

function account(service: string): string {
  return `'${names.SERVICE_ACCOUNT_PREFIX}${service}'`;
}

/** Finalizers and labels come and go without virt-api. */
const SPEC_IS_NEW: MatchCondition = {
  name: "spec-is-new",
  expression: "oldObject == null || object.spec != oldObject.spec",
};

/** What both write into objects that are there is complete: virt-api fills a request in itself, virt-controller copies it. */
const MAY_LACK_SOMETHING: MatchCondition = {
  name: "may-lack-something",
  expression: `request.operation == 'CREATE' || !(request.userInfo.username in [${account("virt-api")}, ${account("virt-controller")}])`,
};

/** Nobody else's writes of a status are judged. */
const BY_AN_AGENT: MatchCondition = {
  name: "by-an-agent",
  expression: `request.userInfo.username == ${account("virt-handler")}`,
};

/** A label or an annotation; the expression's members are missing where nobody has set any. */
function wordOf(object: string, place: "labels" | "annotations", key: string): string {
  const words = `${object}.metadata.${place}`;
  return `(has(${words}) && '${key}' in ${words} ? ${words}['${key}'] : '')`;
}

function isChanged(place: "labels" | "annotations", key: string): string {
  return `${wordOf("object", place, key)} != ${wordOf("oldObject", place, key)}`;
}

/** What a launcher asks for may be written; what it has is its node's word. */
const NODES_WORD_IS_NEW: MatchCondition = {
  name: "nodes-word-is-new",
  expression: [
    isChanged("labels", names.KUBEVIRT_LABEL),
    isChanged("annotations", names.NETWORK_STATUS_ANNOTATION),
    isChanged("annotations", names.ATTACHMENT_ERRORS_ANNOTATION),
  ].join(" || "),
};

const CONDITIONS: Readonly<Record<string, readonly MatchCondition[]>> = {
  mutate: [SPEC_IS_NEW, MAY_LACK_SOMETHING],
  validate: [SPEC_IS_NEW],
  guard: [BY_AN_AGENT],
  migrations: [SPEC_IS_NEW],
  launcher: [NODES_WORD_IS_NEW],
};

/** The conditions of virt-api's webhook of that name, for example `mutate.virt-api.patchbay.io`. */
export function conditionsOf(webhook: string): readonly MatchCondition[] {
  return CONDITIONS[webhook.split(".", 1)[0] ?? ""] ?? [];
}
