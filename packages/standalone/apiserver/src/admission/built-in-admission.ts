// SPDX-License-Identifier: Apache-2.0
// Built-in admission plugins, which run before and after the webhooks.
import type { Clock } from "@patchbay/base";
import { checkEscalation } from "../auth/rbac/escalation.ts";
import type { Authorizer } from "../auth/authorizer.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";
import type { Admission, AdmissionRequest, Mutation } from "./admission.ts";
import { restrictNode } from "./node-restriction.ts";
import { setPriority } from "./priority.ts";
import { setServiceAccount } from "./service-account.ts";
import { setDefaultStorageClass, rejectUploadClaims } from "./persistent-volume-claim.ts";

interface BuiltInAdmissionDeps {
  readonly store: Pick<Store, "find" | "list" | "subscribe">;
  readonly clock: Clock;
  readonly random: { readonly suffix: () => string };
  readonly authorizer: Authorizer;
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
