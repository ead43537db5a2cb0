// SPDX-License-Identifier: Apache-2.0
// Changes the network and the link of an interface, and waits for the effect.
import { requestChange, type Change } from "../../change/request.ts";
import { ifaceStage, type Seen } from "../../change/steps.ts";
import { settingsVerdict, type WantedSettings } from "../../change/verdict.ts";
import type { Context } from "../../command.ts";
import { argumentAt, textOption, type Input } from "../../input.ts";
import { isLive } from "../../print/iface-rows.ts";
import { withNamedTarget, type Target } from "../../target.ts";
import { ifacePatch, type IfaceSettings } from "./iface-patch.ts";

function settingsOf(input: Input): IfaceSettings {
  const network = textOption(input, "network");
  const link = input.options["link"];
  return {
    ...(network !== undefined && { network }),
    ...((link === "up" || link === "down") && { link }),
  };
}

function describe(iface: string, { network, link }: IfaceSettings): string {
  const parts = [
    ...(network === undefined ? [] : [`network ${network}`]),
    ...(link === undefined ? [] : [`link ${link}`]),
  ];
  return `change of interface ${iface} to ${parts.join(" and ")}`;
}

function settingsChange(target: Target, iface: string, settings: IfaceSettings): Change {
  const { network, link } = settings;
  const networkName = network?.includes("/") === false ? `${target.namespace}/${network}` : network;
  const wanted: WantedSettings = {
    ...(networkName !== undefined && { network: networkName }),
    ...(link !== undefined && { link }),
  };
  return {
    target,
    action: "set interface",
    request: { kind: "patch", operations: ifacePatch(target, iface, settings) },
    what: describe(iface, settings),
    look: `patchbay explain ${target.name} ${iface} -n ${target.namespace}`,
    fields: { interface: iface, ...settings },
    stageOf: ({ vmi }: Seen) => ifaceStage(vmi, iface),
    verdictOf: (now) => settingsVerdict({ iface, ...wanted }, now),
    ...(!isLive(target.vmi) && {
      waitsForNothing: "the VM is not running: the change takes effect at its next start",
    }),
  };
}

/** @throws what {@link ifacePatch} and the API server's answer mean */
export async function changeSettings(context: Context, input: Input): Promise<void> {
  const query = { name: argumentAt(input, 0), isVmi: false };
  const iface = textOption(input, "name") ?? "";
  await withNamedTarget(context, query, async (target, session) => {
    const change = settingsChange(target, iface, settingsOf(input));
    await requestChange(session, context, { change, input });
  });
}
