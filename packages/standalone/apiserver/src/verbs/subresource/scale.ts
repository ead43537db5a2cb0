// SPDX-License-Identifier: Apache-2.0
// Handles GET, PUT and PATCH of the subresource scale. Source: autoscaling/v1 Scale.
import { parseObject } from "../../http/body.ts";
import type { Kind, ScaleValues } from "../../kinds/kind.ts";
import { badRequest, internalError, methodNotAllowed, modified } from "../../meta/status.ts";
import { type Fields, copyJson, isFields, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { type Call, type Reply, toResourceRef } from "../call.ts";
import { changeObject } from "../change.ts";
import type { VerbDeps } from "../deps.ts";
import { getStored } from "../get.ts";
import { parsePatch } from "../patch.ts";
import { viewObject } from "../conversion.ts";

const SCALE_KIND = { group: "autoscaling", version: "v1", kind: "Scale" };

function requireScale(kind: Kind): ScaleValues {
  if (kind.scale === undefined) {
    throw internalError(`${kind.resource} has no scale`);
  }
  return kind.scale;
}

function toScale(kind: Kind, object: KubeObject): KubeObject {
  const values = requireScale(kind);
  const { name, namespace, uid, resourceVersion, creationTimestamp } = object.metadata;
  const selector = values.selector(object);
  const metadata = { name, namespace, uid, resourceVersion, creationTimestamp };
  return {
    kind: "Scale",
    apiVersion: "autoscaling/v1",
    metadata: metadata as KubeObject["metadata"],
    spec: { replicas: valueAt(object, ...values.specReplicasPath) ?? 0 },
    status: {
      replicas: valueAt(object, ...values.statusReplicasPath) ?? 0,
      ...(selector === "" ? {} : { selector }),
    },
  };
}

function setField(object: Fields, path: readonly string[], value: unknown): void {
  const [key = "", ...rest] = path;
  if (rest.length === 0) {
    object[key] = value;
    return;
  }
  const child = isFields(object[key]) ? object[key] : {};
  object[key] = child;
  setField(child, rest, value);
}

function setReplicas(kind: Kind, object: KubeObject, scale: unknown): KubeObject {
  const replicas = valueAt(scale, "spec", "replicas");
  if (typeof replicas !== "number") {
    throw badRequest("spec.replicas: Required value");
  }
  setField(object, requireScale(kind).specReplicasPath, replicas);
  return object;
}

function checkScaleName(call: Call, input: unknown): void {
  const bodyName = textAt(input, "metadata", "name");
  if (bodyName !== call.name) {
    throw badRequest(
      `the name of the object (${bodyName}) does not match the name on the URL (${call.name})`,
    );
  }
}

function checkScaleVersion(call: Call, input: unknown, scale: KubeObject): void {
  const version = textAt(input, "metadata", "resourceVersion");
  if (version !== "" && version !== scale.metadata.resourceVersion) {
    throw modified(toResourceRef(call.kind), call.name);
  }
}

async function changeScale(
  call: Call,
  deps: VerbDeps,
  edit: (scale: KubeObject) => unknown,
): Promise<Reply> {
  const changedObject = await changeObject(call, deps, {
    part: "main",
    edit: (object) => setReplicas(call.kind, object, edit(toScale(call.kind, object))),
    body: {
      kind: SCALE_KIND,
      toBody: (object) => toScale(call.kind, object),
      applyBody: (object, scale) => setReplicas(call.kind, object, scale),
    },
  });
  return { type: "object", code: 200, object: toScale(call.kind, changedObject) };
}

export async function serveScale(call: Call, deps: VerbDeps, method: string): Promise<Reply> {
  switch (method) {
    case "GET": {
      const object = viewObject(call.kind, getStored(call, deps));
      return { type: "object", code: 200, object: toScale(call.kind, object) };
    }
    case "PUT": {
      const scaleBody = parseObject(call.body);
      checkScaleName(call, scaleBody);
      return changeScale(call, deps, (scale) => {
        checkScaleVersion(call, scaleBody, scale);
        return scaleBody;
      });
    }
    case "PATCH": {
      const patch = parsePatch(call);
      return changeScale(call, deps, (scale) => {
        const patched = patch(copyJson(scale));
        checkScaleVersion(call, patched, scale);
        return patched;
      });
    }
    default:
      throw methodNotAllowed();
  }
}
