// SPDX-License-Identifier: Apache-2.0
// Handles PUT of an object, its status, or a namespace's finalizers.
import { badRequest, conflict, invalid, modified } from "../meta/status.ts";
import { copyJson } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { parseObject } from "../http/body.ts";
import { type Call, type Reply, toResourceRef, toAddress } from "./call.ts";
import type { VerbDeps } from "./deps.ts";
import { type ObjectChange, changeObject } from "./change.ts";
import { createByUpdate } from "./create.ts";
import { toObject } from "./decode.ts";
import { readRequestObject } from "./options/field-validation.ts";

export function checkAddress(call: Call, object: KubeObject): void {
  const { name, namespace = "" } = object.metadata;
  if (call.kind.namespaced && namespace !== "" && namespace !== call.namespace) {
    throw badRequest(
      "the namespace of the provided object does not match the namespace sent on the request",
    );
  }
  if (name !== call.name) {
    const message =
      name === ""
        ? `(${call.name} based on URL) was undeterminable: name must be provided`
        : `(${name}) does not match the name on the URL (${call.name})`;
    throw badRequest(`the name of the object ${message}`);
  }
}

function checkVersion(call: Call, input: KubeObject, current: KubeObject): void {
  const ref = toResourceRef(call.kind);
  const { resourceVersion = "", uid } = input.metadata;
  if (resourceVersion === "" && !call.kind.strategy.allowsUnconditionalUpdate) {
    throw invalid(ref, call.name, [
      {
        reason: "FieldValueInvalid",
        field: "metadata.resourceVersion",
        message: "Invalid value: 0x0: must be specified for an update",
      },
    ]);
  }
  if (uid !== undefined && uid !== current.metadata.uid) {
    throw conflict(
      ref,
      call.name,
      `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${current.metadata.uid ?? ""}`,
    );
  }
  if (resourceVersion !== "" && resourceVersion !== current.metadata.resourceVersion) {
    throw modified(ref, call.name);
  }
}

export async function updateObject(
  call: Call,
  deps: VerbDeps,
  part: ObjectChange["part"],
): Promise<Reply> {
  const input = await readRequestObject(call, deps);
  checkAddress(call, input);
  const isAbsent = deps.store.find(toAddress(call)) === undefined;
  if (isAbsent && part === "main" && call.kind.strategy.allowsCreateOnUpdate) {
    return createByUpdate(call, deps, input);
  }
  const object = await changeObject(call, deps, {
    part,
    edit: (current) => {
      checkVersion(call, input, current);
      return toObject(call.kind, copyJson(input));
    },
  });
  return { type: "object", code: 200, object };
}

/**
 * Handles a PUT of `/finalize`: updates all fields except status. No other request changes spec.finalizers. If no
 * finalizer remains, a terminating namespace is removed.
 */
export async function finalizeNamespace(call: Call, deps: VerbDeps): Promise<Reply> {
  const input = toObject(call.kind, parseObject(call.body));
  checkAddress(call, input);
  const object = await changeObject(call, deps, {
    part: "all",
    edit: (current) => {
      checkVersion(call, input, current);
      return { ...copyJson(input), status: current["status"] };
    },
  });
  return { type: "object", code: 200, object };
}
