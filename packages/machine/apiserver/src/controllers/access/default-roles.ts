// SPDX-License-Identifier: Apache-2.0
// Keeps the default roles and bindings: makes what is missing, gives back what was taken, leaves the rest alone.
import { DEFAULT_OBJECTS, type DefaultObject } from "../../auth/rbac/bootstrap-roles.ts";
import { missingRules } from "../../auth/rbac/covers.ts";
import { parseRules } from "../../auth/rbac/policy-rule.ts";
import { RBAC_KINDS } from "../../kinds/access/rbac.ts";
import { copyJson, equalJson, listOf } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { Transaction } from "../../storage/store.ts";
import type { VerbDeps } from "../../verbs/deps.ts";
import { keepObject } from "../keep-object.ts";

const LABELS = { "kubernetes.io/bootstrapping": "rbac-defaults" } as const;
const AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate";

/** Rules beside the wanted ones stay; those of an aggregating role are somebody else's business. */
function completeRules(object: KubeObject, wanted: DefaultObject): void {
  const missing = listOf(wanted.fields["rules"]).filter(
    (rule) => missingRules(parseRules(object["rules"]), parseRules([rule])).length > 0,
  );
  if (missing.length > 0) {
    object["rules"] = [...listOf(object["rules"]), ...copyJson(missing)];
  }
}

function completeSubjects(object: KubeObject, wanted: DefaultObject): void {
  const known = listOf(object["subjects"]);
  const missing = listOf(wanted.fields["subjects"]).filter(
    (subject) => !known.some((other) => equalJson(other, subject)),
  );
  if (missing.length > 0) {
    object["subjects"] = [...known, ...copyJson(missing)];
  }
}

function complete(object: KubeObject, wanted: DefaultObject): void {
  const { metadata } = object;
  metadata.labels = { ...metadata.labels, ...LABELS, ...wanted.labels };
  metadata.annotations = { ...metadata.annotations, [AUTOUPDATE]: "true" };
  if (wanted.fields["aggregationRule"] !== undefined) {
    object["aggregationRule"] = copyJson(wanted.fields["aggregationRule"]);
  }
  completeRules(object, wanted);
  completeSubjects(object, wanted);
}

function isOurs(object: KubeObject): boolean {
  return object.metadata.annotations?.[AUTOUPDATE] !== "false";
}

function keep(transaction: Transaction, wanted: DefaultObject, deps: VerbDeps): void {
  const kind = RBAC_KINDS.find(({ resource }) => resource === wanted.resource);
  if (kind === undefined) {
    return;
  }
  const kept = { kind, namespace: wanted.namespace, name: wanted.name };
  keepObject(transaction, { kept, deps }, (object, isNew) => {
    if (isNew) {
      Object.assign(object, copyJson(wanted.fields));
    }
    if (isOurs(object)) {
      complete(object, wanted);
    }
  });
}

/** Brings the default roles and bindings up to date, all at once; those that are annotated not to be updated stay as they are. */
export async function keepDefaultRoles(deps: VerbDeps): Promise<void> {
  await deps.store.write((transaction) => {
    for (const wanted of DEFAULT_OBJECTS) {
      keep(transaction, wanted, deps);
    }
  });
}
