// SPDX-License-Identifier: Apache-2.0
// patchbay removeinterface: asks for the end of an interface.
import { argumentAt, hasFlag, textOption, type Context, type Input } from "../../context.ts";
import { requestChange } from "../../change/request.ts";
import { withSession } from "../../session.ts";
import { findTarget, type Target } from "../../target.ts";
import type { Sight } from "../../change/follow-target.ts";
import { ifaceStage } from "../../change/steps.ts";
import { unplugVerdict } from "../../change/verdict.ts";

/** Runs the command. */
export async function run(context: Context, input: Input): Promise<void> {
  const iface = textOption(input, "name") ?? "";
  await withSession(context, async (session) => {
    const query = { name: argumentAt(input, 0), isVmi: hasFlag(input, "vmi") };
    const target = await findTarget(session, query, context);
    const change = {
      target,
      subresource: "removeinterface",
      body: { name: iface },
      what: `unplug of interface ${iface}`,
      fields: { interface: iface },
      stageOf: (vmi: Target["vmi"]) => ifaceStage(vmi, iface),
      verdictOf: (now: Sight) => unplugVerdict(iface, now),
    };
    await requestChange(session, context, { change, input });
  });
}
