// SPDX-License-Identifier: Apache-2.0
// patchbay addinterface: asks for an interface.
import { argumentAt, hasFlag, textOption, type Context, type Input } from "../../context.ts";
import { requestChange } from "../../change/request.ts";
import { withSession } from "../../session.ts";
import { findTarget, type Target } from "../../target.ts";
import type { Sight } from "../../change/follow-target.ts";
import { ifaceStage } from "../../change/steps.ts";
import { plugVerdict } from "../../change/verdict.ts";

/** Body of the subresource. Source: KubeVirt v1.0 AddInterfaceOptions; the fields beside are ours. */
function bodyOf(input: Input): Readonly<Record<string, unknown>> {
  const macAddress = textOption(input, "macAddress");
  const model = textOption(input, "model");
  return {
    networkAttachmentDefinitionName: textOption(input, "networkAttachmentDefinitionName"),
    name: textOption(input, "name"),
    ...(macAddress !== undefined && { macAddress }),
    ...(model !== undefined && { model }),
  };
}

function waitsForNothing(target: Target): { readonly waitsForNothing?: string } {
  return target.vmi === undefined
    ? { waitsForNothing: "the VM is not running: it comes with its next start" }
    : {};
}

/** Runs the command. */
export async function run(context: Context, input: Input): Promise<void> {
  const iface = textOption(input, "name") ?? "";
  await withSession(context, async (session) => {
    const query = { name: argumentAt(input, 0), isVmi: hasFlag(input, "vmi") };
    const target = await findTarget(session, query, context);
    const change = {
      target,
      subresource: "addinterface",
      body: bodyOf(input),
      what: `plug of interface ${iface}`,
      fields: { interface: iface },
      stageOf: (vmi: Target["vmi"]) => ifaceStage(vmi, iface),
      verdictOf: (now: Sight, first: Sight) => plugVerdict(iface, now, first),
      ...waitsForNothing(target),
    };
    await requestChange(session, context, { change, input });
  });
}
