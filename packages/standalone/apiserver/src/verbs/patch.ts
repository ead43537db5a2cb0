// SPDX-License-Identifier: Apache-2.0
// PATCH with a JSON patch, a merge patch (RFC 7386) or a strategic merge patch.
import { parseText } from "../http/body.ts";
import {
  StatusError,
  badRequest,
  invalid,
  modified,
  unsupportedMediaType,
} from "../meta/status.ts";
import { invalidValue } from "../meta/causes.ts";
import { type Fields, asFields, isFields, printJson } from "../objects/json.ts";
import { type KubeObject, toFields } from "../objects/object.ts";
import { applyJsonPatch, parseOperations } from "../patch/json-patch.ts";
import { applyStrategicMerge } from "../patch/strategic-merge.ts";
import { type Call, type Reply, toResourceRef } from "./call.ts";
import type { VerbDeps } from "./deps.ts";
import { type ObjectChange, changeObject } from "./change.ts";
import { decodeObject } from "./decode.ts";
import { checkFields, addKindWarnings } from "./options/field-validation.ts";
import { checkAddress } from "./update.ts";

export function applyMergePatch(target: unknown, patch: unknown): unknown {
  if (!isFields(patch)) {
    return patch;
  }
  const result: Fields = isFields(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) {
      Reflect.deleteProperty(result, key);
    } else {
      Object.defineProperty(result, key, {
        value: applyMergePatch(Object.hasOwn(result, key) ? result[key] : undefined, value),
        enumerable: true,
        configurable: true,
        writable: true,
      });
    }
  }
  return result;
}

const JSON_PATCH = "application/json-patch+json";
const MERGE_PATCH = "application/merge-patch+json";
const STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json";

type Patcher = (current: Fields) => unknown;

export function parsePatch(call: Call): Patcher {
  const { contentType, text } = call.body;
  const allowsStrategic = call.kind.strategy.allowsStrategicMerge;
  const supported = [JSON_PATCH, MERGE_PATCH, ...(allowsStrategic ? [STRATEGIC_MERGE_PATCH] : [])];
  if (!supported.includes(contentType)) {
    throw unsupportedMediaType(contentType, supported);
  }
  const patch = parseText(text, contentType);
  if (contentType === JSON_PATCH) {
    const operations = parseOperations(patch, text);
    return (current) => applyJsonPatch(current, operations);
  }
  if (!isFields(patch)) {
    throw badRequest("error decoding patch: a merge patch must be an object");
  }
  return contentType === MERGE_PATCH
    ? (current) => applyMergePatch(current, patch)
    : (current) => applyStrategicMerge(current, patch, call.kind.shape);
}

/** Throws a StatusError: 400 for a changed name or namespace, 422 for a changed uid, 409 for a stale resourceVersion. */
function checkPatched(call: Call, patched: KubeObject, current: KubeObject): void {
  const { metadata } = patched;
  const ref = toResourceRef(call.kind);
  checkAddress(call, patched);
  if (metadata.uid !== undefined && metadata.uid !== current.metadata.uid) {
    throw invalid(ref, call.name, [
      invalidValue("metadata.uid", metadata.uid, "field is immutable"),
    ]);
  }
  if ((metadata.resourceVersion ?? "") !== (current.metadata.resourceVersion ?? "")) {
    if (metadata.resourceVersion === undefined) {
      return;
    }
    throw modified(ref, call.name);
  }
}

/** Decodes the patched object. Reports decoding errors as errors of the patch. Source: Kubernetes jsonPatcher. */
function decodePatched(call: Call, patched: Fields): KubeObject {
  try {
    const { object, unknownPaths } = decodeObject(call.kind, patched);
    checkFields(call, unknownPaths);
    addKindWarnings(call, object);
    return object;
  } catch (error) {
    if (!(error instanceof StatusError && error.code === 400)) {
      throw error;
    }
    const message = error.message.replace(/^.*(?=strict decoding error: )/, "");
    throw invalid({ group: "", resource: "", kind: "" }, "", [
      invalidValue("patch", printJson(patched), message),
    ]);
  }
}

export async function patchObject(
  call: Call,
  deps: VerbDeps,
  part: ObjectChange["part"],
): Promise<Reply> {
  const patch = parsePatch(call);
  const object = await changeObject(call, deps, {
    part,
    edit: (current) => {
      const patchedObject = decodePatched(call, asFields(patch(toFields(current))));
      checkPatched(call, patchedObject, current);
      return patchedObject;
    },
  });
  return { type: "object", code: 200, object };
}
