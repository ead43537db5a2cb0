// SPDX-License-Identifier: Apache-2.0
// What becomes of an object by a webhook's patch?
import { messageOf } from "@patchbay/core/errors";
import { StatusError, badRequest, internalError, invalid } from "../../meta/status.ts";
import { apiVersionOf } from "../../kinds/kind.ts";
import { invalidValue } from "../../meta/causes.ts";
import { equalJson, parseJson } from "../../objects/json.ts";
import { type KubeObject, isKubeObject } from "../../objects/object.ts";
import { applyJsonPatch, toOperations } from "../../patch/json-patch.ts";
import type { Mutation } from "../admission.ts";

/** Makes what a webhook wrote complete again: defaults, and without fields that nobody knows. */
export type Complete = (object: KubeObject) => KubeObject;

/** What a webhook made of an object, and whether that is another one. */
export interface Mutated {
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
export function applyWebhookPatch(question: Mutation, patch: string, complete: Complete): Mutated {
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
