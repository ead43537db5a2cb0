// SPDX-License-Identifier: Apache-2.0
// JSON patch that sets the network and the link of one interface. Pure.
import { parseNadName, type JsonPatchOperation } from "@patchbay/api";
import { AppError, ifacesOf, networksOf } from "@patchbay/core";
import { nicsPlaceOf } from "@patchbay/core/nics";
import type { Target } from "../../target.ts";

/** What an interface is set to; at least one of them. */
export interface IfaceSettings {
  /** NetworkAttachmentDefinition, NAME or NAMESPACE/NAME. */
  readonly network?: string;
  readonly link?: "up" | "down";
}

function flagError(flag: string, reason: string): AppError {
  return new AppError("FLAG_INVALID", { flag, reason });
}

/** Sets a field of an entry, and fails when another entry has that position by then. */
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
  const { spec, base } = nicsPlaceOf(target);
  const networks = spec === undefined ? [] : networksOf(spec);
  const index = networks.findIndex(({ name }) => name === iface);
  if (networks[index]?.multus === undefined) {
    const reason = `interface ${iface} is on the pod's network, which is fixed; plug a further interface instead: patchbay addinterface`;
    throw flagError("--network", reason);
  }
  const entry = `${base}/networks/${String(index)}`;
  return setField(entry, iface, { field: "multus/networkName", value: wanted });
}

/**
 * The patch of the VM, or of a VMI without a VM.
 * @throws AppError with FLAG_INVALID when nothing is set, or the network cannot be; KUBE_NOT_FOUND without such an interface
 */
export function ifacePatch(
  target: Target,
  iface: string,
  { network, link }: IfaceSettings,
): readonly JsonPatchOperation[] {
  if (network === undefined && link === undefined) {
    throw flagError("--network, --link", "give at least one of them");
  }
  const { spec, base } = nicsPlaceOf(target);
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
