// SPDX-License-Identifier: Apache-2.0
// What do start, stop and restart have in common?
import { AppError } from "@patchbay/core";
import { argumentAt, type Context, type Input } from "../../context.ts";
import { requestChange } from "../../change/request.ts";
import { withSession } from "../../session.ts";
import { findTarget } from "../../target.ts";
import type { Sight } from "../../change/follow-target.ts";
import { vmiStage } from "../../change/steps.ts";
import type { Verdict } from "../../change/verdict.ts";

/** One of the three. */
export interface PowerAction {
  readonly subresource: "start" | "stop" | "restart";
  /** `first` is how it stood before the request. */
  readonly verdictOf: (now: Sight, first: Sight) => Verdict;
}

/** Asks for it and waits when the user wants that. */
export async function requestPower(
  context: Context,
  input: Input,
  action: PowerAction,
): Promise<void> {
  await withSession(context, async (session) => {
    const query = { name: argumentAt(input, 0), isVmi: false };
    const target = await findTarget(session, query, context);
    if (target.vm === undefined) {
      const object = `${target.namespace}/${target.name}`;
      throw new AppError("KUBE_NOT_FOUND", { resource: "virtualmachine", object });
    }
    const { subresource, verdictOf } = action;
    const change = {
      target,
      subresource,
      body: {},
      what: subresource,
      fields: {},
      stageOf: vmiStage,
      verdictOf,
    };
    await requestChange(session, context, { change, input });
  });
}
