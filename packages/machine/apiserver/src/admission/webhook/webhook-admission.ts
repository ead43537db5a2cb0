// SPDX-License-Identifier: Apache-2.0
// Admission by webhooks: mutating ones in order, then validating ones. Source: Kubernetes "Dynamic Admission Control".
import { messageOf } from "@patchbay/core/errors";
import type { Logger } from "@patchbay/core/ports";
import { apiVersionOf } from "../../kinds/kind.ts";
import { invalidValue } from "../../meta/causes.ts";
import { StatusError, badRequest, forbidden, internalError, invalid } from "../../meta/status.ts";
import { equalJson, parseJson } from "../../objects/json.ts";
import { type KubeObject, isKubeObject } from "../../objects/object.ts";
import { applyJsonPatch, toOperations } from "../../patch/json-patch.ts";
import type { Admission, AdmissionQuestion, Mutation } from "../admission.ts";
import { type WebhookCallDeps, callWebhook } from "./call.ts";
import { type MatchDeps, matchingKind, meetsConditions } from "./match.ts";
import type { Verdict } from "./review.ts";
import { type Webhook, webhooksOf } from "./webhook.ts";

/** Makes what a webhook wrote complete again: defaults, and without fields that nobody knows. */
type Complete = (object: KubeObject) => KubeObject;

/** What a webhook made of an object, and whether that is another one. */
interface Mutated {
  readonly object: KubeObject;
  /** Whether the patch changed anything. */
  readonly changed: boolean;
}

/** A patch that is broken is the server's failure, whatever the webhook's policy. */
function patched(object: KubeObject, patch: string): unknown {
  try {
    const operations = parseJson(patch);
    return operations === null ? object : applyJsonPatch(object, toOperations(operations, patch));
  } catch (error) {
    throw internalError(messageOf(error));
  }
}

/** Refuses another name, uid or namespace: they say which object this is. */
function checkIdentity(question: Mutation, object: KubeObject): void {
  const { kind, oldObject, namespace, bodyKind } = question;
  if (bodyKind !== undefined) {
    return;
  }
  const given = object.metadata.namespace ?? "";
  if (kind.namespaced && given !== "" && given !== namespace) {
    throw badRequest(
      "the namespace of the provided object does not match the namespace sent on the request",
    );
  }
  const causes = (["name", "uid"] as const)
    .filter((key) => oldObject !== undefined && (object.metadata[key] ?? "") !== "")
    .filter((key) => object.metadata[key] !== oldObject?.metadata[key])
    .map((key) => invalidValue(`metadata.${key}`, object.metadata[key], "field is immutable"));
  if (causes.length > 0) {
    throw invalid(kind, question.name, causes);
  }
}

/** A type error here is not the client's. */
function completed(object: KubeObject, complete: Complete): KubeObject {
  try {
    return complete(object);
  } catch (error) {
    throw error instanceof StatusError && error.code === 400 ? internalError(error.message) : error;
  }
}

/** Applies a webhook's patch. Throws StatusErrors 400, 422 and 500. */
function applyWebhookPatch(question: Mutation, patch: string, complete: Complete): Mutated {
  const { object, kind, bodyKind } = question;
  const result = patched(object, patch);
  if (!isKubeObject(result)) {
    throw internalError("the webhook's patch leaves no object");
  }
  const changed = !equalJson(object, result);
  checkIdentity(question, result);
  const { apiVersion, kind: name } =
    bodyKind === undefined ? { apiVersion: apiVersionOf(kind), kind: kind.kind } : object;
  const next = { ...result, apiVersion, kind: name };
  return { object: completed(next, complete), changed };
}

/** Where configurations and namespaces are found, how webhooks are reached, and where those that were ignored are told of. */
interface WebhookAdmissionDeps extends MatchDeps, WebhookCallDeps {
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
