// SPDX-License-Identifier: Apache-2.0
// Tells people why an object with an owner in another namespace goes or stays. Source: Kubernetes garbage collector OwnerRefInvalidNamespace.
import { EVENT } from "../../kinds/cluster/event.ts";
import { apiVersionOf } from "../../kinds/kind.ts";
import type { KubeObject, OwnerReference } from "../../objects/object.ts";
import { rfc3339 } from "../../objects/time.ts";
import type { VerbDeps } from "../../verbs/deps.ts";
import { keepObject } from "../keep-object.ts";
import type { Target } from "./owner-references.ts";

const COMPONENT = "garbage-collector-controller";

/** Records that an object names an owner that lives elsewhere. */
export async function reportForeignOwner(
  deps: VerbDeps,
  at: Target,
  given: { readonly object: KubeObject; readonly owner: OwnerReference },
): Promise<void> {
  const { kind, address } = at;
  const { object, owner } = given;
  const identity = `[${owner.apiVersion}/${owner.kind}, namespace: ${address.namespace}, name: ${owner.name}, uid: ${owner.uid}]`;
  const now = rfc3339(deps.clock.now());
  const namespace = address.namespace === "" ? "default" : address.namespace;
  const { uid } = object.metadata;
  const involvedObject = {
    kind: kind.kind,
    ...(address.namespace === "" ? {} : { namespace: address.namespace }),
    name: address.name,
    uid,
    apiVersion: apiVersionOf(kind),
  };
  const kept = { kind: EVENT, namespace, name: `${address.name}.${owner.uid.slice(0, 16)}` };
  await deps.store.write((transaction) => {
    keepObject(transaction, { kept, deps }, (event) => {
      Object.assign(event, {
        involvedObject,
        type: "Warning",
        reason: "OwnerRefInvalidNamespace",
        message: `ownerRef ${identity} does not exist in namespace "${address.namespace}"`,
        source: { component: COMPONENT },
        reportingComponent: COMPONENT,
        reportingInstance: "",
        firstTimestamp: event["firstTimestamp"] ?? now,
        lastTimestamp: now,
        count: Number(event["count"] ?? 0) + 1,
      });
    });
  });
}
