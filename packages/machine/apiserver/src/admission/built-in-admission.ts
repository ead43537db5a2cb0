// SPDX-License-Identifier: Apache-2.0
// What the server itself says to a write, around what webhooks say.
import type { Clock } from "@patchbay/core/ports";
import { checkEscalation } from "../auth/rbac/escalation.ts";
import type { Authorizer } from "../auth/authorizer.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";
import type { Admission, AdmissionQuestion, Mutation } from "./admission.ts";
import { restrictNode } from "./node-restriction.ts";
import { giveAccount } from "./service-account.ts";
import { giveStorageClass, refuseUploadClaims } from "./persistent-volume-claim.ts";

/** Where accounts, roles and pods of nodes are looked up, and who decides whether rights may be given away. */
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

  /** Pods get their account and claims their class before webhooks see them; rights are counted after webhooks have had their say. */
  async mutate(
    question: Mutation,
    complete: (object: KubeObject) => KubeObject,
  ): Promise<KubeObject> {
    await giveAccount(question, this.#deps);
    giveStorageClass(question, this.#deps.store);
    const object = await this.#webhooks.mutate(question, complete);
    checkEscalation({ ...question, object }, this.#deps.authorizer);
    return object;
  }

  async validate(question: AdmissionQuestion): Promise<void> {
    restrictNode(question, this.#deps.store);
    refuseUploadClaims(question, this.#deps.store);
    return this.#webhooks.validate(question);
  }

  async admitDeletion(question: AdmissionQuestion): Promise<void> {
    restrictNode(question, this.#deps.store);
    return this.#webhooks.admitDeletion(question);
  }
}

/** Puts the server's own rules around those of webhooks. */
export function withBuiltInAdmission(deps: BuiltInAdmissionDeps, webhooks: Admission): Admission {
  return new BuiltInAdmission(deps, webhooks);
}
