// SPDX-License-Identifier: Apache-2.0
// ControllerRevisions of instancetypes and preferences. Source of names and data: KubeVirt
// pkg/instancetype/revision/store.go.
import {
  apiVersionOf,
  CONTROLLER_REVISIONS,
  names,
  type InstancetypeSpec,
  type PreferenceSpec,
  type VirtualMachine,
} from "@patchbay/api";
import { isJsonObject } from "@patchbay/api/json";
import type { ControllerRevision } from "@patchbay/api/kubernetes";
import { sha256Hex } from "../nics/sha256.ts";
import { toLabelValue } from "../vm/spec/guest-names.ts";
import type { MatcherRole, MatchedObject, MatchedType } from "./matchers.ts";

/** Maximum length of an object's name. Source: Kubernetes, "Object Names and IDs". */
const NAME_MAX = 253;
const HASH_DIGITS = 8;

function shortenName(name: string): string {
  if (name.length <= NAME_MAX) return name;
  const prefix = name.slice(0, NAME_MAX - HASH_DIGITS - 1);
  return `${prefix}-${sha256Hex(name).slice(0, HASH_DIGITS)}`;
}

function revisionName(vm: VirtualMachine, type: MatchedType, { metadata }: MatchedObject): string {
  const { name, uid = "", generation = 0 } = metadata;
  return shortenName([vm.metadata.name, name, type.version, uid, String(generation)].join("-"));
}

function buildRevisionLabels(
  type: MatchedType,
  { metadata }: MatchedObject,
): Readonly<Record<string, string>> {
  const { name, uid = "", generation = 0 } = metadata;
  const content = {
    generation: String(generation),
    kind: type.kind,
    name,
    uid,
    version: type.version,
  };
  return Object.fromEntries(
    Object.entries(content).map(([key, value]) => [
      names.REVISION_LABEL_PREFIX + key,
      toLabelValue(value),
    ]),
  );
}

export function buildRevision(
  vm: VirtualMachine,
  type: MatchedType,
  object: MatchedObject,
): ControllerRevision {
  const { name, namespace, uid, resourceVersion, generation, creationTimestamp } = object.metadata;
  const metadata = { name, namespace, uid, resourceVersion, generation, creationTimestamp };
  return {
    apiVersion: apiVersionOf(CONTROLLER_REVISIONS),
    kind: CONTROLLER_REVISIONS.kind,
    metadata: {
      name: revisionName(vm, type, object),
      namespace: vm.metadata.namespace ?? "",
      labels: buildRevisionLabels(type, object),
      ownerReferences: [
        {
          apiVersion: vm.apiVersion,
          kind: vm.kind,
          name: vm.metadata.name,
          uid: vm.metadata.uid ?? "",
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    data: { apiVersion: apiVersionOf(type), kind: type.kind, metadata, spec: object.spec },
    // The API requires the field `revision`, but KubeVirt and Patchbay ignore it.
    revision: 0,
  };
}

export function readRevisionSpec(
  { data }: ControllerRevision,
  role: MatcherRole,
): InstancetypeSpec | PreferenceSpec | undefined {
  if (!isJsonObject(data) || typeof data["kind"] !== "string") return undefined;
  const isOfKind = data["kind"].toLowerCase().endsWith(role);
  const { spec } = data;
  if (!isOfKind || !isJsonObject(spec)) return undefined;
  // The cast is safe, because the API server has validated the object from which this revision was copied.
  const validated: unknown = spec;
  return validated as InstancetypeSpec | PreferenceSpec;
}
