// SPDX-License-Identifier: Apache-2.0
// Which changes are gathered, and what would each of them ask of the API server? Pure.
import type { KubeObject, VmiSpec } from "@patchbay/api";
import { newVmObjects, type NewVm } from "./new-vm.ts";
import type { Machine } from "./nic/plug.ts";
import type { Unit } from "./unit.ts";

/** Which VM. */
export type UnitRef = Pick<Unit, "key" | "namespace" | "name" | "kind">;

/** What is wanted. */
export type Change =
  | {
      readonly kind: "plug";
      readonly unit: UnitRef;
      readonly iface: string;
      readonly network: string;
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
      readonly action: "start" | "stop" | "restart";
    }
  | { readonly kind: "create"; readonly order: NewVm };

/** A request to the API server. */
export interface Ask {
  readonly method: "PUT" | "PATCH" | "POST";
  readonly path: string;
  readonly body: object;
  readonly contentType: string;
}

const JSON_TYPE = "application/json";
/** Of a JSON patch. Source: RFC 6902 section 6 */
export const PATCH_TYPE = "application/json-patch+json";

/** Changes that stand for one another: of one iface, or of a VM's power, only the last counts. */
export function changeId(change: Change): string {
  switch (change.kind) {
    case "create":
      return `create ${change.order.namespace}/${change.order.name}`;
    case "power":
      return `power ${change.unit.key}`;
    case "plug":
    case "move":
    case "pull":
    case "link":
      return `iface ${change.unit.key}/${change.iface}`;
  }
}

/** The changes with one more; what is plugged only here is simply taken back by a pull. */
export function withChange(changes: readonly Change[], change: Change): readonly Change[] {
  const id = changeId(change);
  const known = changes.find((each) => changeId(each) === id);
  const others = changes.filter((each) => each !== known);
  if (known?.kind !== "plug" || change.kind === "power" || change.kind === "create") {
    return [...others, change];
  }
  if (change.kind === "move") return [...others, { ...known, network: change.network }];
  return change.kind === "plug" ? [...others, change] : others;
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
      return `${change.unit.name}: ${change.action}`;
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

/** What NICs are declared in, and where that is in the object. */
export function placeOf({ vm, vmi }: Machine): {
  readonly spec: VmiSpec | undefined;
  readonly base: string;
} {
  return vm === undefined
    ? { spec: vmi?.spec, base: "/spec" }
    : { spec: vm.spec.template.spec, base: "/spec/template/spec" };
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
  const { spec, base } = placeOf(machine);
  const entry = `${base}/networks/${String(indexOf(spec?.networks, iface))}`;
  const value = networkIn(network, unit.namespace);
  return patch(unit, entry, { name: iface, field: "multus/networkName", value });
}

function linkAsk({ unit, iface, to }: Extract<Change, { kind: "link" }>, machine: Machine): Ask {
  const { spec, base } = placeOf(machine);
  const index = indexOf(spec?.domain.devices?.interfaces, iface);
  const entry = `${base}/domain/devices/interfaces/${String(index)}`;
  return patch(unit, entry, { name: iface, field: "state", value: to });
}

function plugAsk({ unit, iface, network }: Extract<Change, { kind: "plug" }>): Ask {
  const networkAttachmentDefinitionName = networkIn(network, unit.namespace);
  return subresource(unit, "addinterface", { networkAttachmentDefinitionName, name: iface });
}

const CREATED: Readonly<Record<string, string>> = {
  VirtualMachine: "/apis/kubevirt.io/v1/namespaces/NAMESPACE/virtualmachines",
  Secret: "/api/v1/namespaces/NAMESPACE/secrets",
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
      return [subresource(change.unit, change.action, {})];
    case "create":
      return newVmObjects(change.order).map(createAsk);
  }
}
