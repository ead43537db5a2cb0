// SPDX-License-Identifier: Apache-2.0
// Requests the plug or unplug of an interface with the subresource `addinterface` or `removeinterface`.
import {
  type Observation,
  findIfaceStage,
  type VmiState,
  judgePlug,
  judgeUnplug,
} from "../../change/progress.ts";
import { requestChange, type Change } from "../../change/request.ts";
import type { Context } from "../../command.ts";
import type { Input } from "../../input.ts";
import { withTarget, type Target } from "../../session.ts";

export interface IfaceRequest {
  readonly subresource: "addinterface" | "removeinterface";
  readonly iface: string;
  readonly body: Readonly<Record<string, unknown>>;
}

function noWaitReason(
  { subresource }: IfaceRequest,
  { vmi }: Target,
): { readonly noWaitReason?: string } {
  return subresource === "addinterface" && vmi === undefined
    ? { noWaitReason: "the VM is not running: the interface is plugged at its next start" }
    : {};
}

export function ifaceChange(request: IfaceRequest, target: Target): Change {
  const { subresource, iface, body } = request;
  const isPlug = subresource === "addinterface";
  return {
    target,
    action: subresource,
    request: { kind: "subresource", name: subresource, body },
    what: `${isPlug ? "plug" : "unplug"} of interface ${iface}`,
    inspectCommand: `patchbay explain ${target.name} ${iface} -n ${target.namespace}`,
    fields: { interface: iface },
    findStage: ({ vmi }: VmiState) => findIfaceStage(vmi, iface),
    findVerdict: (now: Observation, first: Observation) =>
      isPlug ? judgePlug(iface, now, first) : judgeUnplug(iface, now),
    ...noWaitReason(request, target),
  };
}

export async function requestIface(
  context: Context,
  input: Input,
  request: IfaceRequest,
): Promise<void> {
  await withTarget(context, input, async (target, session) => {
    const change = ifaceChange(request, target);
    await requestChange(session, context, { change, input });
  });
}
