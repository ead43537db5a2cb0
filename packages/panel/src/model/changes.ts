// SPDX-License-Identifier: Apache-2.0
// Pending changes, and their requests to the API server.
import type { KubeObject } from "@patchbay/api/kubernetes";
import { createVmObjects, type NewVm } from "@patchbay/core/new-vm";
import { locateNics } from "@patchbay/core/nics";
import { toRelativeNetwork } from "./jacks.ts";
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
  | "softreboot"
  | "migrate"
  | "delete";

export type Change =
  | {
      readonly kind: "plug";
      readonly unit: UnitRef;
      readonly iface: string;
      readonly network: string;
      /** Initial state of the link. Defaults to up. */
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
/** Content type of a JSON patch. Source: RFC 6902, section 6. */
export const PATCH_TYPE = "application/json-patch+json";

/** Returns the change's ID. A newer change replaces a pending change with the same ID. Link changes have IDs of their own. */
export function changeId(change: Change): string {
  switch (change.kind) {
    case "create":
      return `create ${change.order.namespace ?? ""}/${change.order.name}`;
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

/** Merges a change into the pending plug of the same interface. A pull cancels the plug. */
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

/** Adds a change, or merges it into a pending plug of its interface. A pull and the interface's other changes replace each other. */
export function addChange(changes: readonly Change[], change: Change): readonly Change[] {
  const others = removeChange(changes, change);
  if (!("iface" in change)) return [...others, change];
  const plug = changes.find((each) => each.kind === "plug" && concernsIface(each, change));
  if (plug?.kind === "plug") {
    return [...others.filter((each) => each !== plug), ...mergeIntoPlug(plug, change)];
  }
  const replaces = (each: Change): boolean =>
    concernsIface(each, change) && (change.kind === "pull" || each.kind === "pull");
  return [...others.filter((each) => !replaces(each)), change];
}

export function removeChange(changes: readonly Change[], change: Change): readonly Change[] {
  return changes.filter((each) => changeId(each) !== changeId(change));
}

const POWER_DESCRIPTIONS: Readonly<Partial<Record<PowerAction, string>>> = {
  softreboot: "soft reboot",
  delete: "delete the VM; its claims stay",
};

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
      return `${change.unit.name}: ${POWER_DESCRIPTIONS[change.action] ?? change.action}`;
    case "create":
      return `${change.order.name}: create the VM`;
  }
}

/** Returns a name for a new NIC: the network's name without its namespace. If `usedNames` contains this name, appends a number. */
export function newIfaceName(network: string, usedNames: readonly string[]): string {
  const base = network.split("/").at(-1) ?? network;
  for (let number = 2, name = base; ; number += 1) {
    if (!usedNames.includes(name)) return name;
    name = `${base}-${String(number)}`;
  }
}

function buildSubresourceRequest(unit: UnitRef, name: string, body: object): ApiRequest {
  const path = `/apis/subresources.kubevirt.io/v1/namespaces/${unit.namespace}/${unit.kind}/${unit.name}/${name}`;
  return { method: "PUT", path, body, contentType: JSON_TYPE };
}

function indexOf(list: readonly { readonly name: string }[] | undefined, name: string): number {
  return (list ?? []).findIndex((each) => each.name === name);
}

export function patchPath({ namespace, kind, name }: UnitRef): string {
  return `/apis/kubevirt.io/v1/namespaces/${namespace}/${kind}/${name}`;
}

/** Builds a patch of a list entry. The patch tests the entry's name, because the index may now belong to another entry. */
function buildPatchRequest(
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

function buildMoveRequest(
  { unit, iface, network }: Extract<Change, { kind: "move" }>,
  objects: VmObjects,
): ApiRequest {
  const { spec, base } = locateNics(objects);
  const entry = `${base}/networks/${String(indexOf(spec?.networks, iface))}`;
  const value = toRelativeNetwork(network, unit.namespace);
  return buildPatchRequest(unit, entry, { name: iface, field: "multus/networkName", value });
}

function buildLinkRequest(
  { unit, iface, to }: Extract<Change, { kind: "link" }>,
  objects: VmObjects,
): ApiRequest {
  const { spec, base } = locateNics(objects);
  const index = indexOf(spec?.domain.devices?.interfaces, iface);
  const entry = `${base}/domain/devices/interfaces/${String(index)}`;
  return buildPatchRequest(unit, entry, { name: iface, field: "state", value: to });
}

function buildPlugRequest({
  unit,
  iface,
  network,
  link,
}: Extract<Change, { kind: "plug" }>): ApiRequest {
  const networkAttachmentDefinitionName = toRelativeNetwork(network, unit.namespace);
  const state = link === "down" ? { state: link } : {};
  const body = { networkAttachmentDefinitionName, name: iface, ...state };
  return buildSubresourceRequest(unit, "addinterface", body);
}

/** Actions that only VMIs offer. They are sent to the VM's VMI. */
const GUEST_ACTIONS: readonly PowerAction[] = ["pause", "unpause", "reset", "softreboot"];

function buildPowerRequest({ unit, action }: Extract<Change, { kind: "power" }>): ApiRequest {
  if (action === "delete") {
    const body = { apiVersion: "v1", kind: "DeleteOptions" };
    return { method: "DELETE", path: patchPath(unit), body, contentType: JSON_TYPE };
  }
  const kind = GUEST_ACTIONS.includes(action) ? "virtualmachineinstances" : unit.kind;
  return buildSubresourceRequest({ ...unit, kind }, action, {});
}

const COLLECTION_PATHS: Readonly<Record<string, string>> = {
  VirtualMachine: "/apis/kubevirt.io/v1/namespaces/NAMESPACE/virtualmachines",
  Secret: "/api/v1/namespaces/NAMESPACE/secrets",
  PersistentVolumeClaim: "/api/v1/namespaces/NAMESPACE/persistentvolumeclaims",
};

function buildCreateRequest(object: KubeObject): ApiRequest {
  const path = (COLLECTION_PATHS[object.kind] ?? "").replace(
    "NAMESPACE",
    object.metadata.namespace ?? "",
  );
  return { method: "POST", path, body: object, contentType: JSON_TYPE };
}

/** Returns the change's requests in the order of sending. `objects` is the current state of the VM. */
export function toRequests(change: Change, objects: VmObjects): readonly ApiRequest[] {
  switch (change.kind) {
    case "plug":
      return [buildPlugRequest(change)];
    case "pull":
      return [buildSubresourceRequest(change.unit, "removeinterface", { name: change.iface })];
    case "move":
      return [buildMoveRequest(change, objects)];
    case "link":
      return [buildLinkRequest(change, objects)];
    case "power":
      return [buildPowerRequest(change)];
    case "create": {
      const { claims, vm, secret } = createVmObjects(change.order);
      return [...claims, vm, secret].map(buildCreateRequest);
    }
  }
}
