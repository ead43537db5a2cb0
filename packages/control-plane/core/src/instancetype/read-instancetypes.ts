// SPDX-License-Identifier: Apache-2.0
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
  locateMatchedObject,
  MATCHER_ROLES,
  type MatcherRole,
  type MatchedObject,
  type MatchedObjectLocation,
  type InstancetypeSpecs,
  type MatchedType,
} from "./matchers.ts";
import { readRevisionSpec } from "./revision.ts";

/** Instancetype or preference object that the VM uses directly, because the VM names no ControllerRevision. */
export interface LiveObject {
  readonly role: MatcherRole;
  readonly type: MatchedType;
  readonly object: MatchedObject;
}

export interface MissingInstancetype {
  readonly role: MatcherRole;
  readonly message: string;
}

export interface ReadInstancetypes {
  readonly specs: InstancetypeSpecs;
  readonly live: readonly LiveObject[];
  readonly missing: readonly MissingInstancetype[];
}

type Find = Store["find"];

interface Found {
  readonly spec: InstancetypeSpec | PreferenceSpec;
  readonly live?: LiveObject;
}

function describeMissingObject(
  { resource, group }: ResourceType<KubeObject>,
  name: string,
): string {
  return `${resource}.${group} "${name}" not found`;
}

async function readRevision(
  { namespace = "" }: VirtualMachine["metadata"],
  { role, name }: { readonly role: MatcherRole; readonly name: string },
  find: Find,
): Promise<Found | string> {
  const revision = await find(CONTROLLER_REVISIONS, { namespace, name });
  if (revision === undefined) return describeMissingObject(CONTROLLER_REVISIONS, name);
  const spec = readRevisionSpec(revision, role);
  return spec === undefined ? `ControllerRevision ${name} is of no ${role}` : { spec };
}

async function readObject(
  { namespace = "" }: VirtualMachine["metadata"],
  {
    role,
    type,
    name,
  }: { readonly role: MatcherRole; readonly type: MatchedType; readonly name: string },
  find: Find,
): Promise<Found | string> {
  const key = type.namespaced ? { namespace, name } : { name };
  const object = await find<MatchedObject>(type, key);
  if (object === undefined) return describeMissingObject(type, name);
  return { spec: object.spec, live: { role, type, object } };
}

function readAtLocation(
  { metadata }: VirtualMachine,
  { role, location }: { readonly role: MatcherRole; readonly location: MatchedObjectLocation },
  find: Find,
): Promise<Found | string> {
  switch (location.kind) {
    case "unknownKind":
      return Promise.resolve(location.message);
    case "revision":
      return readRevision(metadata, { role, name: location.name }, find);
    case "object":
      return readObject(metadata, { role, type: location.type, name: location.name }, find);
  }
}

export async function readInstancetypes(
  vm: VirtualMachine,
  find: Find,
): Promise<ReadInstancetypes> {
  const readResults = await Promise.all(
    MATCHER_ROLES.map(async (role) => {
      const location = locateMatchedObject(vm, role);
      const object = location && (await readAtLocation(vm, { role, location }, find));
      return { role, found: object };
    }),
  );
  const foundObjects = readResults.flatMap(({ role, found: object }) =>
    typeof object === "object" ? [{ role, ...object }] : [],
  );
  return {
    specs: Object.fromEntries(foundObjects.map(({ role, spec }) => [role, spec])),
    live: foundObjects.flatMap(({ live }) => live ?? []),
    missing: readResults.flatMap(({ role, found: object }) =>
      typeof object === "string" ? [{ role, message: object }] : [],
    ),
  };
}

/** Returns the expanded VM. If the instancetype or preference is missing, returns the unchanged VM and a cause. */
export function expandWith(vm: VirtualMachine, { specs, missing }: ReadInstancetypes): Expansion {
  if (missing.length === 0) return expandVm(vm, specs);
  const causes: readonly Cause[] = missing.map(({ role, message }) =>
    buildNotFoundCause(role, message),
  );
  return { vm, causes };
}
