// SPDX-License-Identifier: Apache-2.0
// Which changes are gathered, and what would each of them ask of the API server? Pure.
import type { KubeObject } from "@patchbay/api";
import { nicsPlaceOf } from "@patchbay/core/nics";
import { newVmObjects, type NewVm } from "./new-vm.ts";
import type { Machine } from "./nic/plug.ts";
import type { Unit } from "./unit.ts";

/** Which VM. */
export type UnitRef = Pick<Unit, "key" | "namespace" | "name" | "kind">;

/** What is done with a whole VM. */
export type PowerAction =
  | "start"
  | "stop"
  | "restart"
  | "pause"
  | "unpause"
  | "reset"
  | "migrate"
  | "delete";

/** What is wanted. */
export type Change =
  | {
      readonly kind: "plug";
      readonly unit: UnitRef;
      readonly iface: string;
      readonly network: string;
      /** Unset: up. */
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

/** A request to the API server. */
export interface Ask {
  readonly method: "PUT" | "PATCH" | "POST" | "DELETE";
  readonly path: string;
  readonly body: object;
  readonly contentType: string;
}

const JSON_TYPE = "application/json";
/** Of a JSON patch. Source: RFC 6902 section 6 */
export const PATCH_TYPE = "application/json-patch+json";

/** Of changes with one id only the last counts. The link of an interface is changed beside its network. */
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

function isOfIface(change: Change, { unit, iface }: IfaceChange): boolean {
  return "iface" in change && change.unit.key === unit.key && change.iface === iface;
}

type IfaceChange = Extract<Change, { readonly iface: string }>;

/** A change of an interface that is plugged only here becomes a part of its plug; a pull takes the plug back. */
function withinPlug(
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

/** The changes with one more. A pull takes the place of everything else that is wanted of its interface. */
export function withChange(changes: readonly Change[], change: Change): readonly Change[] {
  const others = withoutChange(changes, change);
  if (!("iface" in change)) return [...others, change];
  const plug = changes.find((each) => each.kind === "plug" && isOfIface(each, change));
  if (plug?.kind === "plug") {
    return [...others.filter((each) => each !== plug), ...withinPlug(plug, change)];
  }
  const replaces = (each: Change): boolean =>
    isOfIface(each, change) && (change.kind === "pull" || each.kind === "pull");
  return [...others.filter((each) => !replaces(each)), change];
}

/** Without one. */
export function withoutChange(changes: readonly Change[], change: Change): readonly Change[] {
  return changes.filter((each) => changeId(each) !== changeId(change));
}

function networkIn(network: string, namespace: string): string {
  return network.startsWith(`${namespace}/`) ? network.slice(namespace.length + 1) : network;
}

/** The change in one sentence. */
export function sentenceOf(change: Change): string {
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

/** A name for a new NIC on a network: the network's own, with a number where a VM has it already. */
export function newIfaceName(network: string, taken: readonly string[]): string {
  const base = network.split("/").at(-1) ?? network;
  for (let number = 2, name = base; ; number += 1) {
    if (!taken.includes(name)) return name;
    name = `${base}-${String(number)}`;
  }
}

function subresource(unit: UnitRef, name: string, body: object): Ask {
  const path = `/apis/subresources.kubevirt.io/v1/namespaces/${unit.namespace}/${unit.kind}/${unit.name}/${name}`;
  return { method: "PUT", path, body, contentType: JSON_TYPE };
}

function indexOf(list: readonly { readonly name: string }[] | undefined, name: string): number {
  return (list ?? []).findIndex((each) => each.name === name);
}

/** Where the object itself is changed. */
export function patchPath({ namespace, kind, name }: UnitRef): string {
  return `/apis/kubevirt.io/v1/namespaces/${namespace}/${kind}/${name}`;
}

/** Sets one field of an entry, tested by its name: lists may have changed since. */
function patch(
  unit: UnitRef,
  entry: string,
  { name, field, value }: { name: string; field: string; value: string },
): Ask {
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

function moveAsk(
  { unit, iface, network }: Extract<Change, { kind: "move" }>,
  machine: Machine,
): Ask {
  const { spec, base } = nicsPlaceOf(machine);
  const entry = `${base}/networks/${String(indexOf(spec?.networks, iface))}`;
  const value = networkIn(network, unit.namespace);
  return patch(unit, entry, { name: iface, field: "multus/networkName", value });
}

function linkAsk({ unit, iface, to }: Extract<Change, { kind: "link" }>, machine: Machine): Ask {
  const { spec, base } = nicsPlaceOf(machine);
  const index = indexOf(spec?.domain.devices?.interfaces, iface);
  const entry = `${base}/domain/devices/interfaces/${String(index)}`;
  return patch(unit, entry, { name: iface, field: "state", value: to });
}

function plugAsk({ unit, iface, network, link }: Extract<Change, { kind: "plug" }>): Ask {
  const networkAttachmentDefinitionName = networkIn(network, unit.namespace);
  const state = link === "down" ? { state: link } : {};
  const body = { networkAttachmentDefinitionName, name: iface, ...state };
  return subresource(unit, "addinterface", body);
}

/** What a guest's node does, is requested of its VMI. */
const OF_GUEST: readonly PowerAction[] = ["pause", "unpause", "reset"];

function powerAsk({ unit, action }: Extract<Change, { kind: "power" }>): Ask {
  if (action === "delete") {
    const body = { apiVersion: "v1", kind: "DeleteOptions" };
    return { method: "DELETE", path: patchPath(unit), body, contentType: JSON_TYPE };
  }
  const kind = OF_GUEST.includes(action) ? "virtualmachineinstances" : unit.kind;
  return subresource({ ...unit, kind }, action, {});
}

const CREATED: Readonly<Record<string, string>> = {
  VirtualMachine: "/apis/kubevirt.io/v1/namespaces/NAMESPACE/virtualmachines",
  Secret: "/api/v1/namespaces/NAMESPACE/secrets",
  PersistentVolumeClaim: "/api/v1/namespaces/NAMESPACE/persistentvolumeclaims",
};

function createAsk(object: KubeObject): Ask {
  const path = (CREATED[object.kind] ?? "").replace("NAMESPACE", object.metadata.namespace ?? "");
  return { method: "POST", path, body: object, contentType: JSON_TYPE };
}

/** The requests, one after another; `machine` is as it stands when they are sent. */
export function asksOf(change: Change, machine: Machine): readonly Ask[] {
  switch (change.kind) {
    case "plug":
      return [plugAsk(change)];
    case "pull":
      return [subresource(change.unit, "removeinterface", { name: change.iface })];
    case "move":
      return [moveAsk(change, machine)];
    case "link":
      return [linkAsk(change, machine)];
    case "power":
      return [powerAsk(change)];
    case "create":
      return newVmObjects(change.order).map(createAsk);
  }
}
