// SPDX-License-Identifier: Apache-2.0
// What an instancetype or a preference was when a VM first used it, as a ControllerRevision. Source: KubeVirt
// pkg/instancetype/revision/store.go: names, labels and data are its.
import {
  apiVersionOf,
  CONTROLLER_REVISIONS,
  isJsonObject,
  names,
  type ControllerRevision,
  type InstancetypeSpec,
  type PreferenceSpec,
  type VirtualMachine,
} from "@patchbay/api";
import { sha256Hex } from "../iface/sha256.ts";
import { labelValueOf } from "../spec/guest-names.ts";
import type { Part, PartObject, PartType } from "./parts.ts";

/** Source: Kubernetes names of objects. */
const NAME_MAX = 253;
const HASH_DIGITS = 8;

function shortened(name: string): string {
  if (name.length <= NAME_MAX) return name;
  const start = name.slice(0, NAME_MAX - HASH_DIGITS - 1);
  return `${start}-${sha256Hex(name).slice(0, HASH_DIGITS)}`;
}

/** One name for each VM, object and generation of it. */
function revisionNameOf(vm: VirtualMachine, type: PartType, { metadata }: PartObject): string {
  const { name, uid = "", generation = 0 } = metadata;
  return shortened([vm.metadata.name, name, type.version, uid, String(generation)].join("-"));
}

function labelsOf(type: PartType, { metadata }: PartObject): Readonly<Record<string, string>> {
  const { name, uid = "", generation = 0 } = metadata;
  const told = {
    generation: String(generation),
    kind: type.kind,
    name,
    uid,
    version: type.version,
  };
  return Object.fromEntries(
    Object.entries(told).map(([key, value]) => [
      names.REVISION_LABEL_PREFIX + key,
      labelValueOf(value),
    ]),
  );
}

/** The object as it is now, for that VM, with which it goes. */
export function revisionOf(
  vm: VirtualMachine,
  type: PartType,
  object: PartObject,
): ControllerRevision {
  const { name, namespace, uid, resourceVersion, generation, creationTimestamp } = object.metadata;
  const metadata = { name, namespace, uid, resourceVersion, generation, creationTimestamp };
  return {
    apiVersion: apiVersionOf(CONTROLLER_REVISIONS),
    kind: CONTROLLER_REVISIONS.kind,
    metadata: {
      name: revisionNameOf(vm, type, object),
      namespace: vm.metadata.namespace ?? "",
      labels: labelsOf(type, object),
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
    // The API asks for a number; which of them is newer nobody needs to know.
    revision: 0,
  };
}

/** What a revision says; undefined: it is of nothing of the kind. */
export function specOfRevision(
  { data }: ControllerRevision,
  part: Part,
): InstancetypeSpec | PreferenceSpec | undefined {
  if (!isJsonObject(data) || typeof data["kind"] !== "string") return undefined;
  const isOfPart = data["kind"].toLowerCase().endsWith(part);
  const { spec } = data;
  if (!isOfPart || !isJsonObject(spec)) return undefined;
  // The API server has judged it when it was an object.
  const judged: unknown = spec;
  return judged as InstancetypeSpec | PreferenceSpec;
}
