// SPDX-License-Identifier: Apache-2.0
// Whether a VM may name its parts so. Source: KubeVirt pkg/instancetype/webhooks/vm/mutator.go, whose words these are.
import { type Cause, type Matcher, type VirtualMachine } from "@patchbay/api";
import { matcherOf, PARTS, type Part } from "./parts.ts";

const POLICIES: readonly string[] = ["Reject", "Ignore"];

function nameCauses(matcher: Matcher, part: Part): readonly Cause[] {
  if ((matcher.name ?? "") !== "" || (matcher.inferFromVolume ?? "") !== "") return [];
  const message = `Either Name or InferFromVolume should be provided within the ${part} matcher`;
  return [{ reason: "FieldValueNotFound", field: `spec.${part}`, message }];
}

/** What cannot be said beside `inferFromVolume`. */
function inferenceCauses(matcher: Matcher, part: Part): readonly Cause[] {
  if ((matcher.inferFromVolume ?? "") === "") return [];
  const beside = (["name", "kind"] as const).filter((field) => (matcher[field] ?? "") !== "");
  return beside.map((name): Cause => {
    const word = name === "name" ? "Name" : "Kind";
    const message = `${word} should not be provided when InferFromVolume is used within the ${part} matcher`;
    return { reason: "FieldValueNotFound", field: `spec.${part}.${name}`, message };
  });
}

function policyCauses(matcher: Matcher, part: Part): readonly Cause[] {
  const policy = matcher.inferFromVolumeFailurePolicy;
  if (policy === undefined || POLICIES.includes(policy)) return [];
  const message = `Invalid value '${policy}' for InferFromVolumeFailurePolicy`;
  const field = `spec.${part}.inferFromVolumeFailurePolicy`;
  return [{ reason: "FieldValueInvalid", field, message }];
}

function updateCauses(matcher: Matcher, old: Matcher | undefined, part: Part): readonly Cause[] {
  const revision = old?.revisionName ?? "";
  if (old === undefined || revision === "" || old.name === matcher.name) return [];
  if (revision !== matcher.revisionName) return [];
  const message = "the Matcher Name has been updated without updating the RevisionName";
  return [{ reason: "FieldValueInvalid", field: `spec.${part}.revisionName`, message }];
}

/** What is wrong with how a VM names its parts; `old` is what was stored before. */
export function matcherCauses(
  vm: VirtualMachine,
  old: VirtualMachine | undefined,
): readonly Cause[] {
  return PARTS.flatMap((part) => {
    const matcher = matcherOf(vm, part);
    if (matcher === undefined) return [];
    return [
      ...updateCauses(matcher, old && matcherOf(old, part), part),
      ...nameCauses(matcher, part),
      ...inferenceCauses(matcher, part),
      ...policyCauses(matcher, part),
    ];
  });
}
