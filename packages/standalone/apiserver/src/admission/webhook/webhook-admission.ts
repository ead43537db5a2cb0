// SPDX-License-Identifier: Apache-2.0
// Calls the webhooks that take part in the admission of a write. Source: Kubernetes "Dynamic Admission Control".
import { messageOf, SharePool, type Logger } from "@patchbay/base";

import { apiVersionOf } from "../../kinds/kind.ts";
import { invalidValue } from "../../meta/causes.ts";
import { StatusError, badRequest, forbidden, internalError, invalid } from "../../meta/status.ts";
import { equalJson, parseJson } from "../../objects/json.ts";
import { type KubeObject, isKubeObject } from "../../objects/object.ts";
import { applyJsonPatch, parseOperations } from "../../patch/json-patch.ts";
import type { Admission, AdmissionRequest, Mutation } from "../admission.ts";
import { REVIEW_LIMITS, type WebhookCallDeps, callWebhook } from "./call.ts";
import { type MatchDeps, findMatchingKind, evaluateConditions } from "./match.ts";
import type { Verdict } from "./review.ts";
import { type Webhook, parseWebhooks } from "./webhook.ts";

type Complete = (object: KubeObject) => KubeObject;

interface MutationResult {
  readonly object: KubeObject;
  readonly isChanged: boolean;
}

/** Applies the patch. Throws a StatusError 500 for an invalid patch, even if the webhook's failure policy is Ignore. */
function applyPatch(object: KubeObject, patch: string): unknown {
  try {
    const operations = parseJson(patch);
    return operations === null
      ? object
      : applyJsonPatch(object, parseOperations(operations, patch));
  } catch (error) {
    throw internalError(messageOf(error));
  }
}

function checkIdentity(request: Mutation, object: KubeObject): void {
  const { kind, oldObject, namespace, bodyKind } = request;
  if (bodyKind !== undefined) {
    return;
  }
  const objectNamespace = object.metadata.namespace ?? "";
  if (kind.namespaced && objectNamespace !== "" && objectNamespace !== namespace) {
    throw badRequest(
      "the namespace of the provided object does not match the namespace sent on the request",
    );
  }
  const causes = (["name", "uid"] as const)
    .filter((key) => oldObject !== undefined && (object.metadata[key] ?? "") !== "")
    .filter((key) => object.metadata[key] !== oldObject?.metadata[key])
    .map((key) => invalidValue(`metadata.${key}`, object.metadata[key], "field is immutable"));
  if (causes.length > 0) {
    throw invalid(kind, request.name, causes);
  }
}

function completeObject(object: KubeObject, complete: Complete): KubeObject {
  try {
    return complete(object);
  } catch (error) {
    throw error instanceof StatusError && error.code === 400 ? internalError(error.message) : error;
  }
}

/** Applies the webhook's patch, then decodes and defaults the object with `complete`. @throws StatusError 400, 422 or 500 */
function applyWebhookPatch(request: Mutation, patch: string, complete: Complete): MutationResult {
  const { object, kind, bodyKind } = request;
  const result = applyPatch(object, patch);
  if (!isKubeObject(result)) {
    throw internalError("the result of the webhook's patch is not an object");
  }
  const isChanged = !equalJson(object, result);
  checkIdentity(request, result);
  const { apiVersion, kind: name } =
    bodyKind === undefined ? { apiVersion: apiVersionOf(kind), kind: kind.kind } : object;
  const next = { ...result, apiVersion, kind: name };
  return { object: completeObject(next, complete), isChanged };
}

interface WebhookAdmissionDeps extends MatchDeps, Omit<WebhookCallDeps, "reviews"> {
  readonly logger: Logger;
}

const GROUP = "admissionregistration.k8s.io";
const MUTATING = "mutatingwebhookconfigurations";
const VALIDATING = "validatingwebhookconfigurations";

class WebhookAdmission implements Admission {
  readonly #deps: WebhookAdmissionDeps & WebhookCallDeps;

  constructor(deps: WebhookAdmissionDeps) {
    this.#deps = { ...deps, reviews: new SharePool(REVIEW_LIMITS) };
  }

  /** Calls the webhooks in order, then calls reinvocable webhooks again if a later webhook changed the object. */
  async mutate(request: Mutation, complete: Complete): Promise<KubeObject> {
    const reinvocable: Webhook[] = [];
    const toReinvoke = new Set<Webhook>();
    const webhooks = this.#webhooks(MUTATING, request);
    const mutatedObject = await this.#mutateByAll(webhooks, request, {
      complete,
      onCalled: (webhook, isChanged) => {
        if (isChanged) {
          reinvocable.forEach((earlierWebhook) => toReinvoke.add(earlierWebhook));
        }
        if (webhook.isReinvocable) {
          reinvocable.push(webhook);
        }
      },
    });
    return this.#mutateByAll([...toReinvoke], { ...request, object: mutatedObject }, { complete });
  }

  async validate(request: AdmissionRequest): Promise<void> {
    const webhooks = this.#webhooks(VALIDATING, request);
    const outcomes = await Promise.allSettled(
      webhooks.map((webhook) => this.#review(webhook, request)),
    );
    const failure = outcomes.find((outcome) => outcome.status === "rejected");
    if (failure !== undefined) {
      throw failure.reason;
    }
  }

  async admitDeletion(request: AdmissionRequest): Promise<void> {
    for (const webhook of this.#webhooks(MUTATING, request)) {
      const verdict = await this.#review(webhook, request);
      if (verdict !== undefined && verdict.patch !== "") {
        throw internalError(
          `admission webhook "${webhook.name}" attempted to modify the object, which is not supported for this operation`,
        );
      }
    }
    await this.validate(request);
  }

  /** Lists the webhooks. Returns none for writes of webhook configurations, so that users can always remove a broken webhook. */
  #webhooks(resource: string, { kind }: AdmissionRequest): readonly Webhook[] {
    const isExempt =
      kind.group === GROUP && (kind.resource === MUTATING || kind.resource === VALIDATING);
    return isExempt
      ? []
      : this.#deps.store.list({ bucket: `${GROUP}/${resource}` }).flatMap(parseWebhooks);
  }

  async #mutateByAll(
    webhooks: readonly Webhook[],
    request: Mutation,
    options: {
      readonly complete: Complete;
      readonly onCalled?: (webhook: Webhook, isChanged: boolean) => void;
    },
  ): Promise<KubeObject> {
    let { object } = request;
    for (const webhook of webhooks) {
      const mutation = await this.#mutateBy(webhook, { ...request, object }, options.complete);
      if (mutation !== undefined) {
        object = mutation.object;
        options.onCalled?.(webhook, mutation.isChanged);
      }
    }
    return object;
  }

  async #mutateBy(
    webhook: Webhook,
    request: Mutation,
    complete: Complete,
  ): Promise<MutationResult | undefined> {
    const verdict = await this.#review(webhook, request);
    if (verdict === undefined) {
      return undefined;
    }
    return verdict.patch === ""
      ? { object: request.object, isChanged: false }
      : applyWebhookPatch(request, verdict.patch, complete);
  }

  /**
   * Calls the webhook if it matches the request. Returns undefined if the webhook does not match, or if the call fails and the failure
   * policy is Ignore. Throws a StatusError if the webhook denies the request, does not support a dry run, or fails with policy Fail.
   */
  async #review(webhook: Webhook, request: AdmissionRequest): Promise<Verdict | undefined> {
    const wantedKind = findMatchingKind(webhook, request, this.#deps);
    if (wantedKind === undefined) {
      return undefined;
    }
    if (!this.#checkConditions(webhook, request, wantedKind)) {
      return undefined;
    }
    if (request.dryRun && !webhook.allowsDryRun) {
      throw badRequest(`admission webhook "${webhook.name}" does not support dry run`);
    }
    const verdict = await this.#call(webhook, request, wantedKind);
    request.warnings.push(...(verdict?.warnings ?? []));
    if (verdict?.denial !== undefined) {
      throw verdict.denial;
    }
    return verdict;
  }

  #checkConditions(
    webhook: Webhook,
    request: AdmissionRequest,
    wantedKind: AdmissionRequest["kind"],
  ): boolean {
    const result = evaluateConditions(webhook, request, wantedKind);
    if (!(result instanceof Error)) {
      return result;
    }
    if (webhook.failsClosed) {
      throw forbidden(request.kind, request.name, result.message);
    }
    return false;
  }

  async #call(
    webhook: Webhook,
    request: AdmissionRequest,
    wantedKind: AdmissionRequest["kind"],
  ): Promise<Verdict | undefined> {
    try {
      const verdict = await callWebhook(webhook, request, wantedKind, this.#deps);
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

  #onFailure(webhook: Webhook, message: string): void {
    if (webhook.failsClosed) {
      throw internalError(`failed calling webhook "${webhook.name}": ${message}`);
    }
    this.#deps.logger.warn("webhook failed and is ignored", {
      webhook: webhook.name,
      err: message,
    });
  }
}

export function makeWebhookAdmission(deps: WebhookAdmissionDeps): Admission {
  return new WebhookAdmission(deps);
}
