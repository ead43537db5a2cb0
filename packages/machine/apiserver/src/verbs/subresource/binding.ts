// SPDX-License-Identifier: Apache-2.0
// POST pods/binding: puts a pod onto a node, once.
import { ADMIT_ALL } from "../../admission/admission.ts";
import { parseObject } from "../../http/body.ts";
import { badRequest, conflict } from "../../meta/status.ts";
import { type Fields, fieldsOf, listOf, textAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { rfc3339 } from "../../objects/time.ts";
import { type Call, type Reply, aboutOf } from "../call.ts";
import { changeObject } from "../change.ts";
import type { VerbDeps } from "../deps.ts";
import { CREATED, admitBody } from "./admit-body.ts";

const BINDING = { group: "", version: "v1", kind: "Binding" };

function withCondition(object: KubeObject, condition: Fields): void {
  const status = fieldsOf(object["status"]);
  const others = listOf(status["conditions"]).filter(
    (existing) => textAt(existing, "type") !== condition["type"],
  );
  object["status"] = { ...status, conditions: [...others, condition] };
}

/** Binds the pod to the node that the body names; a pod that has one already is a conflict. */
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
  return CREATED;
}
