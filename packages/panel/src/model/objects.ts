// SPDX-License-Identifier: Apache-2.0
import type {
  NetworkAttachmentDefinition,
  VirtualMachine,
  VirtualMachineInstance,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";

export type Watched = "vms" | "vmis" | "networks";

/** Line that the panel's server sends every four seconds. It reports whether the API server responds. */
export interface Pulse {
  readonly kind: "pulse";
  readonly isAnswering: boolean;
}

export type Line =
  | { readonly kind: "scope"; readonly of: Watched; readonly namespace: string | null }
  | { readonly kind: "listed"; readonly of: Watched; readonly objects: readonly KubeObject[] }
  | { readonly kind: "applied" | "removed"; readonly of: Watched; readonly object: KubeObject };

/** Objects by `namespace/name`. */
export type Keyed<T> = ReadonlyMap<string, T>;

export interface Objects {
  readonly vms: Keyed<VirtualMachine>;
  readonly vmis: Keyed<VirtualMachineInstance>;
  readonly networks: Keyed<NetworkAttachmentDefinition>;
  readonly listed: ReadonlySet<Watched>;
  /** The only namespace that the user sees; unset if the user sees all namespaces. */
  readonly onlyIn?: string;
}

export const NO_OBJECTS: Objects = {
  vms: new Map(),
  vmis: new Map(),
  networks: new Map(),
  listed: new Set(),
};

/** Returns whether all kinds were listed. Until all are listed, a running VM may look stopped because its VMI is unknown. */
export function isListed({ listed }: Objects): boolean {
  return listed.has("vms") && listed.has("vmis") && listed.has("networks");
}

export function keyOf({ metadata }: KubeObject): string {
  return `${metadata.namespace ?? ""}/${metadata.name}`;
}

function applyLine(
  objects: Keyed<KubeObject>,
  line: Exclude<Line, { kind: "scope" }>,
): Keyed<KubeObject> {
  if (line.kind === "listed") {
    return new Map(line.objects.map((object) => [keyOf(object), object]));
  }
  const next = new Map(objects);
  if (line.kind === "removed") next.delete(keyOf(line.object));
  else next.set(keyOf(line.object), line.object);
  return next;
}

/** Applies a line of the change stream. Reuses unchanged objects, because UnitCache compares objects by identity. */
export function withLine(objects: Objects, line: Line): Objects {
  if (line.kind === "scope") {
    return line.namespace === null || line.of !== "vms"
      ? objects
      : { ...objects, onlyIn: line.namespace };
  }
  const listed = line.kind === "listed" ? new Set([...objects.listed, line.of]) : objects.listed;
  return { ...objects, [line.of]: applyLine(objects[line.of], line), listed };
}
