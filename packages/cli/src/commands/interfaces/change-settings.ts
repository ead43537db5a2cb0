// SPDX-License-Identifier: Apache-2.0
// Changes the network and the link of an interface.
import { isDefaultNetwork } from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import { parseNadName } from "@patchbay/api/values";
import { AppError } from "@patchbay/base";
import { ifacesOf, networksOf, locateNics } from "@patchbay/core/nics";

import { type Target, withNamedTarget } from "../../session.ts";
import { requestChange, type Change } from "../../change/request.ts";
import {
  findIfaceStage,
  type VmiState,
  judgeSettings,
  type RequestedSettings,
} from "../../change/progress.ts";
import type { Context } from "../../command.ts";
import { argumentAt, textOption, type Input } from "../../input.ts";
import { isLive } from "../../print/iface-rows.ts";

/** New settings of an interface. At least one setting must be set. */
interface IfaceSettings {
  /** NetworkAttachmentDefinition, as NAME or NAMESPACE/NAME. */
  readonly network?: string;
  readonly link?: "up" | "down";
}

function flagError(flag: string, reason: string): AppError {
  return new AppError("FLAG_INVALID", { flag, reason });
}

function setField(
  entry: string,
  name: string,
  { field, value }: { readonly field: string; readonly value: string },
): readonly JsonPatchOperation[] {
  return [
    { op: "test", path: `${entry}/name`, value: name },
    { op: "add", path: `${entry}/${field}`, value },
  ];
}

function networkOperations(
  target: Target,
  iface: string,
  wanted: string,
): readonly JsonPatchOperation[] {
  if (parseNadName(wanted) === undefined) {
    throw flagError("--network", `${JSON.stringify(wanted)} is neither NAME nor NAMESPACE/NAME`);
  }
  const { spec, base } = locateNics(target);
  const networks = spec === undefined ? [] : networksOf(spec);
  const index = networks.findIndex(({ name }) => name === iface);
  const network = networks[index];
  if (network?.multus === undefined || isDefaultNetwork(network)) {
    const reason = `interface ${iface} is on the pod's default network, which is fixed; plug a further interface instead: patchbay addinterface`;
    throw flagError("--network", reason);
  }
  const entry = `${base}/networks/${String(index)}`;
  return setField(entry, iface, { field: "multus/networkName", value: wanted });
}

/** Builds the patch of the VM, or of a VMI without a VM. @throws AppError with FLAG_INVALID, KUBE_NOT_FOUND */
export function ifacePatch(
  target: Target,
  iface: string,
  { network, link }: IfaceSettings,
): readonly JsonPatchOperation[] {
  if (network === undefined && link === undefined) {
    throw flagError("--network, --link", "set at least one of them");
  }
  const { spec, base } = locateNics(target);
  const index = (spec === undefined ? [] : ifacesOf(spec)).findIndex(({ name }) => name === iface);
  if (index === -1) {
    const object = `${iface} of ${target.kind} ${target.namespace}/${target.name}`;
    throw new AppError("KUBE_NOT_FOUND", { resource: "interface", object });
  }
  const entry = `${base}/domain/devices/interfaces/${String(index)}`;
  return [
    ...(network === undefined ? [] : networkOperations(target, iface, network)),
    ...(link === undefined ? [] : setField(entry, iface, { field: "state", value: link })),
  ];
}

function readSettings(input: Input): IfaceSettings {
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
  const wanted: RequestedSettings = {
    ...(networkName !== undefined && { network: networkName }),
    ...(link !== undefined && { link }),
  };
  return {
    target,
    action: "set interface",
    request: { kind: "patch", operations: ifacePatch(target, iface, settings) },
    what: describe(iface, settings),
    inspectCommand: `patchbay explain ${target.name} ${iface} -n ${target.namespace}`,
    fields: { interface: iface, ...settings },
    findStage: ({ vmi }: VmiState) => findIfaceStage(vmi, iface),
    findVerdict: (now) => judgeSettings({ iface, ...wanted }, now),
    ...(!isLive(target.vmi) && {
      noWaitReason: "the VM is not running: the change takes effect at its next start",
    }),
  };
}

/** Requests the change. @throws AppError with FLAG_INVALID, KUBE_NOT_FOUND, or the code of a rejected request */
export async function changeSettings(context: Context, input: Input): Promise<void> {
  const query = { name: argumentAt(input, 0), isVmi: false };
  const iface = textOption(input, "name") ?? "";
  await withNamedTarget(context, query, async (target, session) => {
    const change = settingsChange(target, iface, readSettings(input));
    await requestChange(session, context, { change, input });
  });
}
