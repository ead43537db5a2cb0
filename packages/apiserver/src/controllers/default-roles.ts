// SPDX-License-Identifier: Apache-2.0
// Keeps the default roles and bindings: makes what is missing, gives back what was taken, leaves the rest alone.
import { DEFAULT_OBJECTS, type DefaultObject } from "../auth/bootstrap-roles.ts";
import { missingRules } from "../auth/covers.ts";
import { parseRules } from "../auth/policy-rule.ts";
import { type Kind, apiVersionOf, bucketOf } from "../kinds/kind.ts";
import { RBAC_KINDS } from "../kinds/rbac.ts";
import { copyJson, equalJson, listOf, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Transaction } from "../storage/store.ts";
import type { Deps } from "../verbs/call.ts";

const LABELS = { "kubernetes.io/bootstrapping": "rbac-defaults" } as const;
const AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate";

function newObject(kind: Kind, wanted: DefaultObject, deps: Deps): KubeObject {
  return {
    apiVersion: apiVersionOf(kind),
    kind: kind.kind,
    metadata: {
      name: wanted.name,
      ...(wanted.namespace === "" ? {} : { namespace: wanted.namespace }),
      uid: deps.random.uid(),
      creationTimestamp: rfc3339(deps.clock.now()),
      labels: { ...LABELS, ...wanted.labels },
      annotations: { [AUTOUPDATE]: "true" },
    },
    ...copyJson(wanted.fields),
  };
}

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

function complete(object: KubeObject, wanted: DefaultObject): KubeObject {
  const { metadata } = object;
  metadata.labels = { ...metadata.labels, ...LABELS, ...wanted.labels };
  metadata.annotations = { ...metadata.annotations, [AUTOUPDATE]: "true" };
  if (wanted.fields["aggregationRule"] !== undefined) {
    object["aggregationRule"] = copyJson(wanted.fields["aggregationRule"]);
  }
  completeRules(object, wanted);
  completeSubjects(object, wanted);
  return object;
}

function keep(transaction: Transaction, wanted: DefaultObject, deps: Deps): void {
  const kind = RBAC_KINDS.find(({ resource }) => resource === wanted.resource);
  if (kind === undefined) {
    return;
  }
  const { namespace, name } = wanted;
  const address = { bucket: bucketOf(kind), namespace, name };
  const stored = transaction.find(address);
  if (stored === undefined) {
    transaction.put(address, newObject(kind, wanted, deps));
    return;
  }
  const isOurs = valueAt(stored.view(), "metadata", "annotations", AUTOUPDATE) !== "false";
  const next = isOurs ? complete(stored.copy(), wanted) : stored.view();
  if (!equalJson(next, stored.view())) {
    transaction.put(address, next);
  }
}

/** Brings the default roles and bindings up to date, all at once; those that are annotated not to be updated stay as they are. */
export async function keepDefaultRoles(deps: Deps): Promise<void> {
  await deps.store.write((transaction) => {
    for (const wanted of DEFAULT_OBJECTS) {
      keep(transaction, wanted, deps);
    }
  });
}
