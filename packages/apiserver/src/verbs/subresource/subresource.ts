// SPDX-License-Identifier: Apache-2.0
// Subresources that are not simply a part of the object: binding, eviction, finalize, scale.
import { parseObject } from "../../http/body.ts";
import {
  badRequest,
  conflict,
  internalError,
  methodNotAllowed,
  modified,
  successBody,
} from "../../meta/status.ts";
import { ADMIT_ALL } from "../../admission/admission.ts";
import { type Kind, type ScaleValues } from "../../kinds/kind.ts";
import {
  type Fields,
  copyJson,
  fieldsOf,
  isFields,
  listOf,
  textAt,
  valueAt,
} from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { rfc3339 } from "../../objects/time.ts";
import { type Call, type Reply, aboutOf, addressOf } from "../call.ts";
import type { VerbDeps } from "../deps.ts";
import { admitBody } from "./admit-body.ts";
import { changeObject } from "../change.ts";
import { toObject } from "../decode.ts";
import { deleteOne } from "../delete.ts";
import { deleteOptionsOf } from "../options/delete-options.ts";
import { getObject } from "../get.ts";
import { parsePatch } from "../patch.ts";
import { viewObject } from "../readable.ts";
import { checkAddress, checkVersion } from "../update.ts";

const SCALE = { group: "autoscaling", version: "v1", kind: "Scale" };
const BINDING = { group: "", version: "v1", kind: "Binding" };
const EVICTION = { group: "policy", version: "v1", kind: "Eviction" };

function withCondition(object: KubeObject, condition: Fields): void {
  const status = fieldsOf(object["status"]);
  const others = listOf(status["conditions"]).filter(
    (existing) => textAt(existing, "type") !== condition["type"],
  );
  object["status"] = { ...status, conditions: [...others, condition] };
}

/** POST pods/binding: puts a pod onto a node, once. */
export async function bindPod(call: Call, deps: VerbDeps): Promise<Reply> {
  const binding = await admitBody(call, deps, { kind: BINDING, body: parseObject(call.body) });
  const node = textAt(binding, "target", "name");
  if (node === "") {
    throw badRequest("Binding target.name: Required value");
  }
  await changeObject(
    call,
    { ...deps, admission: ADMIT_ALL },
    {
      part: "all",
      once: false,
      edit: (pod) => {
        const bound = textAt(pod, "spec", "nodeName");
        if (bound !== "") {
          const why = `pod ${pod.metadata.name} is already assigned to node "${bound}"`;
          throw conflict({ ...aboutOf(call.kind), resource: "pods/binding" }, call.name, why);
        }
        pod["spec"] = { ...fieldsOf(pod["spec"]), nodeName: node };
        withCondition(pod, {
          type: "PodScheduled",
          status: "True",
          lastProbeTime: null,
          lastTransitionTime: rfc3339(deps.clock.now()),
        });
        return pod;
      },
    },
  );
  return {
    type: "fields",
    code: 201,
    fields: { ...successBody({}), details: undefined, code: 201 },
  };
}

/** POST pods/eviction: deletes a pod; there are no disruption budgets here. */
export async function evictPod(call: Call, deps: VerbDeps): Promise<Reply> {
  const eviction = await admitBody(call, deps, { kind: EVICTION, body: parseObject(call.body) });
  const options = fieldsOf(eviction["deleteOptions"]);
  const body = { contentType: "application/json", text: JSON.stringify(options) };
  await deleteOne(call, { ...deps, admission: ADMIT_ALL }, deleteOptionsOf({ ...call, body }));
  return {
    type: "fields",
    code: 201,
    fields: { ...successBody({}), details: undefined, code: 201 },
  };
}

/** PUT namespaces/finalize: the only way to change `spec.finalizers`. */
export async function finalizeNamespace(call: Call, deps: VerbDeps): Promise<Reply> {
  const given = toObject(call.kind, parseObject(call.body));
  checkAddress(call, given);
  const object = await changeObject(call, deps, {
    part: "all",
    once: (given.metadata.resourceVersion ?? "") !== "",
    edit: (current) => {
      checkVersion(call, given, current);
      return { ...copyJson(given), status: current["status"] };
    },
  });
  return { type: "object", code: 200, object };
}

function scaleOf(kind: Kind): ScaleValues {
  if (kind.scale === undefined) {
    throw internalError(`${kind.resource} has no scale`);
  }
  return kind.scale;
}

function toScale(kind: Kind, object: KubeObject): KubeObject {
  const values = scaleOf(kind);
  const { name, namespace, uid, resourceVersion, creationTimestamp } = object.metadata;
  const selector = values.selector(object);
  const metadata = { name, namespace, uid, resourceVersion, creationTimestamp };
  return {
    kind: "Scale",
    apiVersion: "autoscaling/v1",
    // Members that are undefined are not printed.
    metadata: metadata as KubeObject["metadata"],
    spec: { replicas: valueAt(object, ...values.spec) ?? 0 },
    status: {
      replicas: valueAt(object, ...values.status) ?? 0,
      ...(selector === "" ? {} : { selector }),
    },
  };
}

function setAt(object: Fields, path: readonly string[], value: unknown): void {
  const [key = "", ...rest] = path;
  if (rest.length === 0) {
    object[key] = value;
    return;
  }
  const child = isFields(object[key]) ? object[key] : {};
  object[key] = child;
  setAt(child, rest, value);
}

/** Changes `object` to the number that `scale` says. */
function withReplicas(kind: Kind, object: KubeObject, scale: unknown): KubeObject {
  const replicas = valueAt(scale, "spec", "replicas");
  if (typeof replicas !== "number") {
    throw badRequest("spec.replicas: Required value");
  }
  setAt(object, scaleOf(kind).spec, replicas);
  return object;
}

/** Refuses a scale of something else. */
function checkScale(call: Call, given: unknown): void {
  const named = textAt(given, "metadata", "name");
  if (named !== call.name) {
    throw badRequest(
      `the name of the object (${named}) does not match the name on the URL (${call.name})`,
    );
  }
}

/** Refuses a scale that was made of another state, where it says of which. */
function checkScaleVersion(call: Call, given: unknown, scale: KubeObject): void {
  const version = textAt(given, "metadata", "resourceVersion");
  if (version !== "" && version !== scale.metadata.resourceVersion) {
    throw modified(aboutOf(call.kind), call.name);
  }
}

async function changeScale(
  call: Call,
  deps: VerbDeps,
  edit: (scale: KubeObject) => unknown,
): Promise<Reply> {
  const changed = await changeObject(call, deps, {
    part: "main",
    once: false,
    edit: (object) => withReplicas(call.kind, object, edit(toScale(call.kind, object))),
    body: {
      kind: SCALE,
      of: (object) => toScale(call.kind, object),
      into: (object, scale) => withReplicas(call.kind, object, scale),
    },
  });
  return { type: "object", code: 200, object: toScale(call.kind, changed) };
}

/** GET, PUT and PATCH of `scale`. */
export async function serveScale(call: Call, deps: VerbDeps, method: string): Promise<Reply> {
  switch (method) {
    case "GET": {
      const reply = getObject(call, deps);
      const stored = deps.store.find({
        ...addressOf(call),
      });
      return stored === undefined
        ? reply
        : { type: "object", code: 200, object: toScale(call.kind, viewObject(call.kind, stored)) };
    }
    case "PUT": {
      const given = parseObject(call.body);
      checkScale(call, given);
      return changeScale(call, deps, (scale) => {
        checkScaleVersion(call, given, scale);
        return given;
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
