// SPDX-License-Identifier: Apache-2.0
// Built-in admission plugins, which run before and after the webhooks.
import type { Clock } from "@patchbay/base";
import { checkEscalation } from "../auth/rbac/escalation.ts";
import type { Authorizer } from "../auth/authorizer.ts";
import { forbiddenBecause } from "../auth/forbidden.ts";
import { asFields, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";
import type { Admission, AdmissionRequest, Mutation } from "./admission.ts";
import { restrictNode } from "./node-restriction.ts";
import { setServiceAccount } from "./service-account.ts";
import { setDefaultStorageClass, rejectUploadClaims } from "./persistent-volume-claim.ts";

interface BuiltInAdmissionDeps {
  readonly store: Pick<Store, "find" | "list" | "subscribe">;
  readonly clock: Clock;
  readonly random: { readonly suffix: () => string };
  readonly authorizer: Authorizer;
}

const PRIORITY_CLASSES = "scheduling.k8s.io/priorityclasses";

/** Priorities of the PriorityClasses that exist in every cluster. Source: Kubernetes pkg/apis/scheduling. */
const SYSTEM_CLASSES: ReadonlyMap<string, number> = new Map([
  ["system-cluster-critical", 2_000_000_000],
  ["system-node-critical", 2_000_001_000],
]);

function setPriority(request: Mutation, store: Pick<Store, "find">): void {
  const { kind, subresource, operation, object } = request;
  const isNewPod = kind.group === "" && kind.resource === "pods" && subresource === "";
  const spec = asFields(object["spec"]);
  const name = textAt(spec, "priorityClassName");
  if (!isNewPod || operation !== "CREATE" || name === "") return;
  const priorityClass = store.find({ bucket: PRIORITY_CLASSES, namespace: "", name })?.view();
  const value = SYSTEM_CLASSES.get(name) ?? valueAt(priorityClass, "value");
  if (typeof value !== "number") {
    const pod = { group: "", resource: "pods", name: object.metadata.name };
    throw forbiddenBecause(pod, `no PriorityClass with name ${name} was found`);
  }
  spec["priority"] = value;
  spec["preemptionPolicy"] = valueAt(priorityClass, "preemptionPolicy") ?? "PreemptLowerPriority";
}

class BuiltInAdmission implements Admission {
  readonly #deps: BuiltInAdmissionDeps;
  readonly #webhooks: Admission;

  constructor(deps: BuiltInAdmissionDeps, webhooks: Admission) {
    this.#deps = deps;
    this.#webhooks = webhooks;
  }

  /** Runs the mutating plugins and webhooks. Checks for privilege escalation last, because webhooks may add rules to a role. */
  async mutate(
    request: Mutation,
    complete: (object: KubeObject) => KubeObject,
  ): Promise<KubeObject> {
    await setServiceAccount(request, this.#deps);
    setPriority(request, this.#deps.store);
    setDefaultStorageClass(request, this.#deps.store);
    const object = await this.#webhooks.mutate(request, complete);
    checkEscalation({ ...request, object }, this.#deps.authorizer);
    return object;
  }

  async validate(request: AdmissionRequest): Promise<void> {
    restrictNode(request, this.#deps.store);
    rejectUploadClaims(request, this.#deps.store);
    return this.#webhooks.validate(request);
  }

  async admitDeletion(request: AdmissionRequest): Promise<void> {
    restrictNode(request, this.#deps.store);
    return this.#webhooks.admitDeletion(request);
  }
}

export function withBuiltInAdmission(deps: BuiltInAdmissionDeps, webhooks: Admission): Admission {
  return new BuiltInAdmission(deps, webhooks);
}
