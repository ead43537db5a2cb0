// SPDX-License-Identifier: Apache-2.0
// What is there now, as the lines of the watch tell it? Pure.
import type {
  KubeObject,
  NetworkAttachmentDefinition,
  VirtualMachine,
  VirtualMachineInstance,
} from "@patchbay/api";

/** Kinds as the lines name them. */
export type Watched = "vms" | "vmis" | "networks";

/** Whether the API server answers the panel's server, told every four seconds. */
export interface Pulse {
  readonly kind: "pulse";
  readonly isAnswering: boolean;
}

/** A line of the watch that is about objects. */
export type Line =
  | { readonly kind: "scope"; readonly of: Watched; readonly namespace: string | null }
  | { readonly kind: "listed"; readonly of: Watched; readonly objects: readonly KubeObject[] }
  | { readonly kind: "applied" | "removed"; readonly of: Watched; readonly object: KubeObject };

/** By `namespace/name`. */
export type Keyed<T> = ReadonlyMap<string, T>;

/** All of it. */
export interface Objects {
  readonly vms: Keyed<VirtualMachine>;
  readonly vmis: Keyed<VirtualMachineInstance>;
  readonly networks: Keyed<NetworkAttachmentDefinition>;
  /** Kinds that have been listed: until then it is not known that there are none. */
  readonly listed: ReadonlySet<Watched>;
  /** Where only one namespace is seen, which. */
  readonly onlyIn?: string;
}

/** Before anything was told. */
export const NOTHING: Objects = {
  vms: new Map(),
  vmis: new Map(),
  networks: new Map(),
  listed: new Set(),
};

/** The key of an object. */
export function keyOf({ metadata }: KubeObject): string {
  return `${metadata.namespace ?? ""}/${metadata.name}`;
}

function changed(
  known: Keyed<KubeObject>,
  line: Exclude<Line, { kind: "scope" }>,
): Keyed<KubeObject> {
  if (line.kind === "listed") {
    return new Map(line.objects.map((object) => [keyOf(object), object]));
  }
  const next = new Map(known);
  if (line.kind === "removed") next.delete(keyOf(line.object));
  else next.set(keyOf(line.object), line.object);
  return next;
}

/** With one more line; objects that it does not name stay the same ones. */
export function withLine(objects: Objects, line: Line): Objects {
  if (line.kind === "scope") {
    return line.namespace === null || line.of !== "vms"
      ? objects
      : { ...objects, onlyIn: line.namespace };
  }
  const listed = line.kind === "listed" ? new Set([...objects.listed, line.of]) : objects.listed;
  return { ...objects, [line.of]: changed(objects[line.of], line), listed };
}
