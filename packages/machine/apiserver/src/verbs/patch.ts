// SPDX-License-Identifier: Apache-2.0
// PATCH: operations, or fields to merge.
import { parseText } from "../http/body.ts";
import {
  StatusError,
  badRequest,
  invalid,
  modified,
  unsupportedMediaType,
} from "../meta/status.ts";
import { invalidValue } from "../meta/causes.ts";
import { type Fields, fieldsOf, isFields, printJson } from "../objects/json.ts";
import { type KubeObject, toFields } from "../objects/object.ts";
import { applyJsonPatch, toOperations } from "../patch/json-patch.ts";
import { applyMergePatch } from "../patch/merge-patch.ts";
import { applyStrategicMerge } from "../patch/strategic-merge.ts";
import { type Call, type Reply, aboutOf } from "./call.ts";
import type { VerbDeps } from "./deps.ts";
import { type Change, changeObject } from "./change.ts";
import { decodeObject } from "./decode.ts";
import { checkFields, warn } from "./options/field-validation.ts";
import { checkAddress } from "./update.ts";

const JSON_PATCH = "application/json-patch+json";
const MERGE_PATCH = "application/merge-patch+json";
const STRATEGIC = "application/strategic-merge-patch+json";

/** Gives the patched fields. */
export type Patcher = (current: Fields) => unknown;

/** Reads the patch in the body. Throws StatusErrors 400 and 415. */
export function parsePatch(call: Call): Patcher {
  const { contentType, text } = call.body;
  const strategic = call.kind.strategy.allowsStrategicMerge;
  const supported = [JSON_PATCH, MERGE_PATCH, ...(strategic ? [STRATEGIC] : [])];
  if (!supported.includes(contentType)) {
    throw unsupportedMediaType(contentType, supported);
  }
  const patch = parseText(text, contentType);
  if (contentType === JSON_PATCH) {
    const operations = toOperations(patch, text);
    return (current) => applyJsonPatch(current, operations);
  }
  if (!isFields(patch)) {
    throw badRequest("error decoding patch: a merge patch is an object");
  }
  return contentType === MERGE_PATCH
    ? (current) => applyMergePatch(current, patch)
    : (current) => applyStrategicMerge(current, patch, call.kind.shape);
}

/** Refuses a patch that names another state or another object. Controllers rely on Invalid for another uid. */
function checkPatched(call: Call, patched: KubeObject, current: KubeObject): void {
  const { metadata } = patched;
  const about = aboutOf(call.kind);
  checkAddress(call, patched);
  if (metadata.uid !== undefined && metadata.uid !== current.metadata.uid) {
    throw invalid(about, call.name, [
      invalidValue("metadata.uid", metadata.uid, "field is immutable"),
    ]);
  }
  if ((metadata.resourceVersion ?? "") !== (current.metadata.resourceVersion ?? "")) {
    if (metadata.resourceVersion === undefined) {
      return;
    }
    throw modified(about, call.name);
  }
}

/** What is wrong with the object that a patch makes is said of the patch. Source: Kubernetes jsonPatcher. */
function decodePatched(call: Call, patched: Fields): KubeObject {
  try {
    const { object, unknown } = decodeObject(call.kind, patched);
    checkFields(call, unknown);
    warn(call, object);
    return object;
  } catch (error) {
    if (!(error instanceof StatusError && error.code === 400)) {
      throw error;
    }
    const why = error.message.replace(/^.*(?=strict decoding error: )/, "");
    throw invalid({ group: "", resource: "", kind: "" }, "", [
      invalidValue("patch", printJson(patched), why),
    ]);
  }
}

/** Patches the object, or the part that the subresource names. Throws StatusErrors 400, 404, 409, 415 and 422. */
export async function patchObject(
  call: Call,
  deps: VerbDeps,
  part: Change["part"],
): Promise<Reply> {
  const patch = parsePatch(call);
  const object = await changeObject(call, deps, {
    part,
    edit: (current) => {
      // Patches of an object leave an object, maybe an empty one.
      const decoded = decodePatched(call, fieldsOf(patch(toFields(current))));
      checkPatched(call, decoded, current);
      return decoded;
    },
  });
  return { type: "object", code: 200, object };
}
