// SPDX-License-Identifier: Apache-2.0
// What do start, stop and restart have in common?
import { AppError } from "@patchbay/core/errors";
import { requestChange } from "../../change/request.ts";
import { vmiStage, type Seen } from "../../change/steps.ts";
import { startVerdict, stopVerdict } from "../../change/verdict.ts";
import type { Context } from "../../command.ts";
import type { Input } from "../../input.ts";
import { withTarget } from "../../target.ts";

/** When each of them is done. */
const VERDICTS = { start: startVerdict, stop: stopVerdict, restart: startVerdict } as const;

/** Asks for it and waits when the user wants that. */
export async function requestPower(
  context: Context,
  input: Input,
  subresource: keyof typeof VERDICTS,
): Promise<void> {
  await withTarget(context, input, async (target, session) => {
    if (target.vm === undefined) {
      const object = `${target.namespace}/${target.name}`;
      throw new AppError("KUBE_NOT_FOUND", { resource: "virtualmachine", object });
    }
    const change = {
      target,
      action: subresource,
      request: { kind: "subresource", name: subresource, body: {} } as const,
      what: subresource,
      look: `kubectl describe vm,vmi ${target.name} -n ${target.namespace}`,
      fields: {},
      stageOf: ({ vmi }: Seen) => vmiStage(vmi),
      verdictOf: VERDICTS[subresource],
    };
    await requestChange(session, context, { change, input });
  });
}
