// SPDX-License-Identifier: Apache-2.0
// Reads the specs of a VM's instancetype and preference, from revisions or from the referenced objects.
import {
  CONTROLLER_REVISIONS,
  type InstancetypeSpec,
  type PreferenceSpec,
  type ResourceType,
  type VirtualMachine,
} from "@patchbay/api";
import type { Cause, KubeObject } from "@patchbay/api/kubernetes";
import type { Store } from "../interfaces/store.ts";
import { expandVm, type Expansion } from "./expand.ts";
import {
  buildNotFoundCause,
  locatePart,
  PARTS,
  type Part,
  type PartObject,
  type PartLocation,
  type Parts,
  type PartType,
} from "./parts.ts";
import { readRevisionSpec } from "./revision.ts";

/** Instancetype or preference that was read from its object, because no revision exists. */
export interface LivePart {
  readonly part: Part;
  readonly type: PartType;
  readonly object: PartObject;
}

export interface MissingPart {
  readonly part: Part;
  readonly message: string;
}

export interface ReadParts {
  readonly parts: Parts;
  readonly live: readonly LivePart[];
  readonly missing: readonly MissingPart[];
}

type Find = Store["find"];

interface Found {
  readonly spec: InstancetypeSpec | PreferenceSpec;
  readonly live?: LivePart;
}

function describeMissingPart({ resource, group }: ResourceType<KubeObject>, name: string): string {
  return `${resource}.${group} "${name}" not found`;
}

async function readRevision(
  { namespace = "" }: VirtualMachine["metadata"],
  { part, name }: { readonly part: Part; readonly name: string },
  find: Find,
): Promise<Found | string> {
  const revision = await find(CONTROLLER_REVISIONS, { namespace, name });
  if (revision === undefined) return describeMissingPart(CONTROLLER_REVISIONS, name);
  const spec = readRevisionSpec(revision, part);
  return spec === undefined ? `ControllerRevision ${name} is of no ${part}` : { spec };
}

async function readObject(
  { namespace = "" }: VirtualMachine["metadata"],
  { part, type, name }: { readonly part: Part; readonly type: PartType; readonly name: string },
  find: Find,
): Promise<Found | string> {
  const key = type.namespaced ? { namespace, name } : { name };
  const object = await find<PartObject>(type, key);
  if (object === undefined) return describeMissingPart(type, name);
  return { spec: object.spec, live: { part, type, object } };
}

function readAtLocation(
  { metadata }: VirtualMachine,
  { part, location }: { readonly part: Part; readonly location: PartLocation },
  find: Find,
): Promise<Found | string> {
  switch (location.kind) {
    case "unknownKind":
      return Promise.resolve(location.message);
    case "revision":
      return readRevision(metadata, { part, name: location.name }, find);
    case "object":
      return readObject(metadata, { part, type: location.type, name: location.name }, find);
  }
}

export async function readParts(vm: VirtualMachine, find: Find): Promise<ReadParts> {
  const readResults = await Promise.all(
    PARTS.map(async (part) => {
      const location = locatePart(vm, part);
      const object = location && (await readAtLocation(vm, { part, location }, find));
      return { part, found: object };
    }),
  );
  const foundObjects = readResults.flatMap(({ part, found: object }) =>
    typeof object === "object" ? [{ part, ...object }] : [],
  );
  return {
    parts: Object.fromEntries(foundObjects.map(({ part, spec }) => [part, spec])),
    live: foundObjects.flatMap(({ live }) => live ?? []),
    missing: readResults.flatMap(({ part, found: object }) =>
      typeof object === "string" ? [{ part, message: object }] : [],
    ),
  };
}

/** Returns the expanded VM. If the instancetype or preference is missing, returns the unchanged VM and a cause. */
export function expandWith(vm: VirtualMachine, { parts, missing }: ReadParts): Expansion {
  if (missing.length === 0) return expandVm(vm, parts);
  const causes: readonly Cause[] = missing.map(({ part, message }) =>
    buildNotFoundCause(part, message),
  );
  return { vm, causes };
}
