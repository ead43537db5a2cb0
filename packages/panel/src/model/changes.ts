// SPDX-License-Identifier: Apache-2.0
// Pending changes, and their requests to the API server. Pure.
import type { KubeObject } from "@patchbay/api";
import { locateNics } from "@patchbay/core/nics";
import { newVmObjects, type NewVm } from "./new-vm.ts";
import type { VmObjects } from "./nic/plug.ts";
import type { Unit } from "./unit.ts";

export type UnitRef = Pick<Unit, "key" | "namespace" | "name" | "kind">;

export type PowerAction =
  | "start"
  | "stop"
  | "restart"
  | "pause"
  | "unpause"
  | "reset"
  | "migrate"
  | "delete";

export type Change =
  | {
      readonly kind: "plug";
      readonly unit: UnitRef;
      readonly iface: string;
      readonly network: string;
      /** Default: up. */
      readonly link?: "up" | "down";
    }
  | {
      readonly kind: "move";
      readonly unit: UnitRef;
      readonly iface: string;
      readonly network: string;
    }
  | { readonly kind: "pull"; readonly unit: UnitRef; readonly iface: string }
  | {
      readonly kind: "link";
      readonly unit: UnitRef;
      readonly iface: string;
      readonly to: "up" | "down";
    }
  | {
      readonly kind: "power";
      readonly unit: UnitRef;
      readonly action: PowerAction;
    }
  | { readonly kind: "create"; readonly order: NewVm };

export interface ApiRequest {
  readonly method: "PUT" | "PATCH" | "POST" | "DELETE";
  readonly path: string;
  readonly body: object;
  readonly contentType: string;
}

const JSON_TYPE = "application/json";
/** Source: RFC 6902 section 6 */
export const PATCH_TYPE = "application/json-patch+json";

/** Only the last change with an ID counts. An interface's link and its network have separate IDs. */
export function changeId(change: Change): string {
  switch (change.kind) {
    case "create":
      return `create ${change.order.namespace}/${change.order.name}`;
    case "power":
      return `power ${change.unit.key}`;
    case "plug":
    case "move":
    case "pull":
      return `iface ${change.unit.key}/${change.iface}`;
    case "link":
      return `link ${change.unit.key}/${change.iface}`;
  }
}

function concernsIface(change: Change, { unit, iface }: IfaceChange): boolean {
  return "iface" in change && change.unit.key === unit.key && change.iface === iface;
}

type IfaceChange = Extract<Change, { readonly iface: string }>;

/** Merges a change of an interface that is not plugged yet into its plug; a pull cancels the plug. */
function mergeIntoPlug(
  plug: Extract<Change, { kind: "plug" }>,
  change: IfaceChange,
): readonly Change[] {
  switch (change.kind) {
    case "plug":
      return [change];
    case "move":
      return [{ ...plug, network: change.network }];
    case "link":
      return [{ ...plug, link: change.to }];
    case "pull":
      return [];
  }
}

/** Adds a change. A pull replaces all other changes of its interface. */
export function withChange(changes: readonly Change[], change: Change): readonly Change[] {
  const others = withoutChange(changes, change);
  if (!("iface" in change)) return [...others, change];
  const plug = changes.find((each) => each.kind === "plug" && concernsIface(each, change));
  if (plug?.kind === "plug") {
    return [...others.filter((each) => each !== plug), ...mergeIntoPlug(plug, change)];
  }
  const replaces = (each: Change): boolean =>
    concernsIface(each, change) && (change.kind === "pull" || each.kind === "pull");
  return [...others.filter((each) => !replaces(each)), change];
}

export function withoutChange(changes: readonly Change[], change: Change): readonly Change[] {
  return changes.filter((each) => changeId(each) !== changeId(change));
}

function networkIn(network: string, namespace: string): string {
  return network.startsWith(`${namespace}/`) ? network.slice(namespace.length + 1) : network;
}

export function describeChange(change: Change): string {
  switch (change.kind) {
    case "plug":
      return `${change.unit.name}: plug ${change.iface} into ${change.network}`;
    case "move":
      return `${change.unit.name}: move ${change.iface} to ${change.network}`;
    case "pull":
      return `${change.unit.name}: pull ${change.iface}`;
    case "link":
      return `${change.unit.name}: set the link of ${change.iface} ${change.to}`;
    case "power":
      return change.action === "delete"
        ? `${change.unit.name}: delete the VM; its claims stay`
        : `${change.unit.name}: ${change.action}`;
    case "create":
      return `${change.order.name}: create the VM`;
  }
}

/** Name of a new NIC: the network's, with a number if the VM has it already. */
export function newIfaceName(network: string, taken: readonly string[]): string {
  const base = network.split("/").at(-1) ?? network;
  for (let number = 2, name = base; ; number += 1) {
    if (!taken.includes(name)) return name;
    name = `${base}-${String(number)}`;
  }
}

function subresource(unit: UnitRef, name: string, body: object): ApiRequest {
  const path = `/apis/subresources.kubevirt.io/v1/namespaces/${unit.namespace}/${unit.kind}/${unit.name}/${name}`;
  return { method: "PUT", path, body, contentType: JSON_TYPE };
}

function indexOf(list: readonly { readonly name: string }[] | undefined, name: string): number {
  return (list ?? []).findIndex((each) => each.name === name);
}

export function patchPath({ namespace, kind, name }: UnitRef): string {
  return `/apis/kubevirt.io/v1/namespaces/${namespace}/${kind}/${name}`;
}

/** Sets a field of a list entry, and tests the entry's name because the list may have changed. */
function patch(
  unit: UnitRef,
  entry: string,
  { name, field, value }: { name: string; field: string; value: string },
): ApiRequest {
  return {
    method: "PATCH",
    path: patchPath(unit),
    body: [
      { op: "test", path: `${entry}/name`, value: name },
      { op: "add", path: `${entry}/${field}`, value },
    ],
    contentType: PATCH_TYPE,
  };
}

function moveRequest(
  { unit, iface, network }: Extract<Change, { kind: "move" }>,
  objects: VmObjects,
): ApiRequest {
  const { spec, base } = locateNics(objects);
  const entry = `${base}/networks/${String(indexOf(spec?.networks, iface))}`;
  const value = networkIn(network, unit.namespace);
  return patch(unit, entry, { name: iface, field: "multus/networkName", value });
}

function linkRequest(
  { unit, iface, to }: Extract<Change, { kind: "link" }>,
  objects: VmObjects,
): ApiRequest {
  const { spec, base } = locateNics(objects);
  const index = indexOf(spec?.domain.devices?.interfaces, iface);
  const entry = `${base}/domain/devices/interfaces/${String(index)}`;
  return patch(unit, entry, { name: iface, field: "state", value: to });
}

function plugRequest({
  unit,
  iface,
  network,
  link,
}: Extract<Change, { kind: "plug" }>): ApiRequest {
  const networkAttachmentDefinitionName = networkIn(network, unit.namespace);
  const state = link === "down" ? { state: link } : {};
  const body = { networkAttachmentDefinitionName, name: iface, ...state };
  return subresource(unit, "addinterface", body);
}

/** Actions of the guest's node, requested from the VMI. */
const GUEST_ACTIONS: readonly PowerAction[] = ["pause", "unpause", "reset"];

function powerRequest({ unit, action }: Extract<Change, { kind: "power" }>): ApiRequest {
  if (action === "delete") {
    const body = { apiVersion: "v1", kind: "DeleteOptions" };
    return { method: "DELETE", path: patchPath(unit), body, contentType: JSON_TYPE };
  }
  const kind = GUEST_ACTIONS.includes(action) ? "virtualmachineinstances" : unit.kind;
  return subresource({ ...unit, kind }, action, {});
}

const COLLECTION_PATHS: Readonly<Record<string, string>> = {
  VirtualMachine: "/apis/kubevirt.io/v1/namespaces/NAMESPACE/virtualmachines",
  Secret: "/api/v1/namespaces/NAMESPACE/secrets",
  PersistentVolumeClaim: "/api/v1/namespaces/NAMESPACE/persistentvolumeclaims",
};

function createRequest(object: KubeObject): ApiRequest {
  const path = (COLLECTION_PATHS[object.kind] ?? "").replace(
    "NAMESPACE",
    object.metadata.namespace ?? "",
  );
  return { method: "POST", path, body: object, contentType: JSON_TYPE };
}

/** Requests in order; `machine` is the state when they are sent. */
export function toRequests(change: Change, objects: VmObjects): readonly ApiRequest[] {
  switch (change.kind) {
    case "plug":
      return [plugRequest(change)];
    case "pull":
      return [subresource(change.unit, "removeinterface", { name: change.iface })];
    case "move":
      return [moveRequest(change, objects)];
    case "link":
      return [linkRequest(change, objects)];
    case "power":
      return [powerRequest(change)];
    case "create":
      return newVmObjects(change.order).map(createRequest);
  }
}
