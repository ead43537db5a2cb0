// SPDX-License-Identifier: Apache-2.0
// Admission by webhooks: mutating ones in order, then validating ones. Source: Kubernetes "Dynamic Admission Control".
import { messageOf } from "@patchbay/core/errors";
import type { Logger } from "@patchbay/core/ports";
import { StatusError, badRequest, forbidden, internalError } from "../../meta/status.ts";
import type { KubeObject } from "../../objects/object.ts";
import type { Admission, AdmissionQuestion, Mutation } from "../admission.ts";
import type { Verdict } from "./answer.ts";
import { type WebhookCallDeps, callWebhook } from "./call.ts";
import { meetsConditions } from "./conditions.ts";
import { type MatchDeps, matchingKind } from "./match.ts";
import { type Complete, type Mutated, applyWebhookPatch } from "./mutate.ts";
import { type Webhook, webhooksOf } from "./webhook.ts";

/** Where configurations and namespaces are found, how webhooks are reached, and where those that were ignored are told of. */
export interface WebhookAdmissionDeps extends MatchDeps, WebhookCallDeps {
  readonly logger: Logger;
}

const GROUP = "admissionregistration.k8s.io";
const MUTATING = "mutatingwebhookconfigurations";
const VALIDATING = "validatingwebhookconfigurations";

class WebhookAdmission implements Admission {
  readonly #deps: WebhookAdmissionDeps;

  constructor(deps: WebhookAdmissionDeps) {
    this.#deps = deps;
  }

  /** Webhooks that want it are asked once more where a later one changed the object after them. */
  async mutate(question: Mutation, complete: Complete): Promise<KubeObject> {
    const asked: Webhook[] = [];
    const again = new Set<Webhook>();
    const webhooks = this.#webhooks(MUTATING, question);
    const first = await this.#mutateByAll(webhooks, question, {
      complete,
      after: (webhook, changed) => {
        if (changed) {
          asked.forEach((earlier) => again.add(earlier));
        }
        if (webhook.reinvoked) {
          asked.push(webhook);
        }
      },
    });
    return this.#mutateByAll([...again], { ...question, object: first }, { complete });
  }

  async validate(question: AdmissionQuestion): Promise<void> {
    const webhooks = this.#webhooks(VALIDATING, question);
    const outcomes = await Promise.allSettled(
      webhooks.map((webhook) => this.#ask(webhook, question)),
    );
    const failed = outcomes.find((outcome) => outcome.status === "rejected");
    if (failed !== undefined) {
      throw failed.reason;
    }
  }

  async admitDeletion(question: AdmissionQuestion): Promise<void> {
    for (const webhook of this.#webhooks(MUTATING, question)) {
      const verdict = await this.#ask(webhook, question);
      if (verdict !== undefined && verdict.patch !== "") {
        throw internalError(
          `admission webhook "${webhook.name}" attempted to modify the object, which is not supported for this operation`,
        );
      }
    }
    await this.validate(question);
  }

  /** Webhooks of all configurations, in the order of their names. Configurations themselves are never asked about. */
  #webhooks(resource: string, { kind }: AdmissionQuestion): readonly Webhook[] {
    const exempt =
      kind.group === GROUP && (kind.resource === MUTATING || kind.resource === VALIDATING);
    return exempt
      ? []
      : this.#deps.store.list({ bucket: `${GROUP}/${resource}` }).flatMap(webhooksOf);
  }

  /** The object after all of them, one after the other; `after` hears of those that were asked. */
  async #mutateByAll(
    webhooks: readonly Webhook[],
    question: Mutation,
    how: {
      readonly complete: Complete;
      readonly after?: (webhook: Webhook, changed: boolean) => void;
    },
  ): Promise<KubeObject> {
    let { object } = question;
    for (const webhook of webhooks) {
      const mutated = await this.#mutateBy(webhook, { ...question, object }, how.complete);
      if (mutated !== undefined) {
        object = mutated.object;
        how.after?.(webhook, mutated.changed);
      }
    }
    return object;
  }

  /** The object after one webhook; undefined where it was not asked. */
  async #mutateBy(
    webhook: Webhook,
    question: Mutation,
    complete: Complete,
  ): Promise<Mutated | undefined> {
    const verdict = await this.#ask(webhook, question);
    if (verdict === undefined) {
      return undefined;
    }
    return verdict.patch === ""
      ? { object: question.object, changed: false }
      : applyWebhookPatch(question, verdict.patch, complete);
  }

  /** What the webhook says; undefined where it does not matter. Throws a StatusError where it denies. */
  async #ask(webhook: Webhook, question: AdmissionQuestion): Promise<Verdict | undefined> {
    const as = matchingKind(webhook, question, this.#deps);
    if (as === undefined) {
      return undefined;
    }
    if (!this.#meetsConditions(webhook, question, as)) {
      return undefined;
    }
    if (question.dryRun && !webhook.allowsDryRun) {
      throw badRequest(`admission webhook "${webhook.name}" does not support dry run`);
    }
    const verdict = await this.#call(webhook, question, as);
    question.warnings.push(...(verdict?.warnings ?? []));
    if (verdict?.denial !== undefined) {
      throw verdict.denial;
    }
    return verdict;
  }

  /** A condition that cannot be told is like a webhook that cannot be asked. */
  #meetsConditions(
    webhook: Webhook,
    question: AdmissionQuestion,
    as: AdmissionQuestion["kind"],
  ): boolean {
    const met = meetsConditions(webhook, question, as);
    if (!(met instanceof Error)) {
      return met;
    }
    if (webhook.failsClosed) {
      throw forbidden(question.kind, question.name, met.message);
    }
    return false;
  }

  async #call(
    webhook: Webhook,
    question: AdmissionQuestion,
    as: AdmissionQuestion["kind"],
  ): Promise<Verdict | undefined> {
    try {
      const verdict = await callWebhook(webhook, { question, as }, this.#deps);
      if (verdict.patch !== "" && verdict.patchType !== "JSONPatch") {
        throw new Error(`unsupported patch type "${verdict.patchType}"`);
      }
      return verdict;
    } catch (error) {
      if (error instanceof StatusError) {
        throw error;
      }
      this.#onFailure(webhook, messageOf(error));
      return undefined;
    }
  }

  #onFailure(webhook: Webhook, why: string): void {
    if (webhook.failsClosed) {
      throw internalError(`failed calling webhook "${webhook.name}": ${why}`);
    }
    this.#deps.logger.warn("webhook failed, going on without it", {
      webhook: webhook.name,
      err: why,
    });
  }
}

/** Makes admission by the webhooks that are configured in the store. */
export function makeWebhookAdmission(deps: WebhookAdmissionDeps): Admission {
  return new WebhookAdmission(deps);
}
