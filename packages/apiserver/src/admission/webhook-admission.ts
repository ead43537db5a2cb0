// SPDX-License-Identifier: Apache-2.0
// Admission by webhooks: mutating ones in order, then validating ones. Source: Kubernetes "Dynamic Admission Control".
import { messageOf } from "@patchbay/core";
import type { Logger } from "@patchbay/ports";
import { StatusError, internalError } from "../http/status.ts";
import { apiVersionOf } from "../kinds/kind.ts";
import { equalJson } from "../objects/json.ts";
import { type KubeObject, isKubeObject } from "../objects/object.ts";
import { applyJsonPatch, toOperations } from "../patch/json-patch.ts";
import type { Admission, AdmissionQuestion } from "./admission.ts";
import { type WebhookCallDeps, callWebhook } from "./call-webhook.ts";
import { type MatchDeps, matchingKind } from "./match.ts";
import type { Approval } from "./review.ts";
import { type Webhook, webhooksOf } from "./webhook.ts";

/** What webhook admission works with. */
export interface WebhookAdmissionDeps extends MatchDeps, WebhookCallDeps {
  readonly logger: Logger;
}

type Complete = (object: KubeObject) => KubeObject;
type Mutation = AdmissionQuestion & { readonly object: KubeObject };

const GROUP = "admissionregistration.k8s.io";
const NOTHING: Approval = { patch: undefined, warnings: [] };

function noDryRun(webhook: Webhook): StatusError {
  const message = `admission webhook "${webhook.name}" does not support dry run`;
  return new StatusError({ code: 400, reason: "BadRequest", message });
}

class WebhookAdmission implements Admission {
  readonly #deps: WebhookAdmissionDeps;

  constructor(deps: WebhookAdmissionDeps) {
    this.#deps = deps;
  }

  async mutate(question: Mutation, complete: Complete): Promise<KubeObject> {
    const webhooks = this.#webhooks("mutatingwebhookconfigurations", question);
    const states: { readonly webhook: Webhook; readonly after: KubeObject }[] = [];
    let { object } = question;
    for (const webhook of webhooks) {
      object = await this.#mutateBy(webhook, { ...question, object }, complete);
      states.push({ webhook, after: object });
    }
    const final = object;
    const again = states.filter(
      ({ webhook, after }) => webhook.reinvoked && !equalJson(after, final),
    );
    for (const { webhook } of again) {
      object = await this.#mutateBy(webhook, { ...question, object }, complete);
    }
    return object;
  }

  async validate(question: AdmissionQuestion): Promise<void> {
    const webhooks = this.#webhooks("validatingwebhookconfigurations", question);
    const outcomes = await Promise.allSettled(
      webhooks.map((webhook) => this.#ask(webhook, question)),
    );
    const failed = outcomes.find((outcome) => outcome.status === "rejected");
    if (failed !== undefined) {
      throw failed.reason;
    }
  }

  /** Webhooks of all configurations, in the order of their names. Configurations themselves are never asked about. */
  #webhooks(resource: string, question: AdmissionQuestion): readonly Webhook[] {
    return question.kind.group === GROUP
      ? []
      : this.#deps.store.list({ bucket: `${GROUP}/${resource}` }).flatMap(webhooksOf);
  }

  async #mutateBy(webhook: Webhook, question: Mutation, complete: Complete): Promise<KubeObject> {
    const { patch } = await this.#ask(webhook, question);
    if (patch === undefined) {
      return question.object;
    }
    const changed = applyJsonPatch(question.object, toOperations(patch));
    if (!isKubeObject(changed)) {
      throw internalError(`admission webhook "${webhook.name}" leaves no object`);
    }
    return complete({ ...changed, apiVersion: apiVersionOf(question.kind) });
  }

  async #ask(webhook: Webhook, question: AdmissionQuestion): Promise<Approval> {
    const as = matchingKind(webhook, question, this.#deps);
    if (as === undefined) {
      return NOTHING;
    }
    if (question.dryRun && !webhook.allowsDryRun) {
      throw noDryRun(webhook);
    }
    try {
      const approval = await callWebhook(webhook, { question, as }, this.#deps);
      question.warnings.push(...approval.warnings);
      return approval;
    } catch (error) {
      return this.#onFailure(webhook, error);
    }
  }

  #onFailure(webhook: Webhook, error: unknown): Approval {
    if (error instanceof StatusError) {
      throw error;
    }
    const why = `failed calling webhook "${webhook.name}": failed to call webhook: ${messageOf(error)}`;
    if (webhook.failsClosed) {
      throw internalError(why);
    }
    this.#deps.logger.warn("webhook failed, going on without it", {
      webhook: webhook.name,
      err: messageOf(error),
    });
    return NOTHING;
  }
}

/** Makes admission by the webhooks that are configured in the store. */
export function makeWebhookAdmission(deps: WebhookAdmissionDeps): Admission {
  return new WebhookAdmission(deps);
}
