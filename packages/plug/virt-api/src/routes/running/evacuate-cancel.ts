// SPDX-License-Identifier: Apache-2.0
// PUT .../evacuate/cancel: the guest stays on its node although that was to be evacuated. Source: KubeVirt
// pkg/virt-api/rest/evacuate_cancel.go.
import { VIRTUAL_MACHINE_INSTANCES } from "@patchbay/api";
import { membersOf, type NicTarget } from "@patchbay/core";
import { insist } from "../../changes/races.ts";
import { aboutTarget, observeTarget } from "../../changes/targets.ts";
import type { Deps } from "../../deps.ts";
import {
  toDoneAnswer,
  toNotFoundAnswer,
  toRefusalAnswer,
  type Answer,
} from "../../http/answers.ts";
import type { Call, CallHandler } from "../call.ts";

const PATH = "/status/evacuationNodeName";

async function cancel(deps: Deps, kind: NicTarget["kind"], call: Call): Promise<Answer> {
  const about = aboutTarget(kind, call);
  const target = await observeTarget(deps.store, kind, call);
  if (target === undefined) return toNotFoundAnswer(about);
  if (target.vmi === undefined) return toNotFoundAnswer(aboutTarget("vmi", call));
  const object = `VMI ${call.namespace}/${call.name}`;
  const node = target.vmi.status?.evacuationNodeName;
  if (node === undefined) return toDoneAnswer(`${object} is not being evacuated`);
  const operations = [
    { op: "test", path: PATH, value: node },
    { op: "remove", path: PATH },
  ] as const;
  const options = { subresource: "status", dryRun: call.dryRun } as const;
  await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, call, { type: "json", operations }, options);
  return toDoneAnswer(`the evacuation of ${object} from node ${node} was canceled`);
}

/** Answers 200, also where nothing is evacuated; 404 without a guest. A migration that runs is not ended. */
export function evacuateCancel(deps: Deps, kind: NicTarget["kind"]): CallHandler {
  return (call) => {
    const about = aboutTarget(kind, call);
    const members = membersOf(call.body);
    if (!members.ok) return Promise.resolve(toRefusalAnswer(members.refusal, about));
    return insist(() => cancel(deps, kind, call), deps, about);
  };
}
