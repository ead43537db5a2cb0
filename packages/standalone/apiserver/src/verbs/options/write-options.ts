// SPDX-License-Identifier: Apache-2.0
// Validation of write options. Source: Kubernetes apimachinery meta/v1 validation.
import { type Cause, invalid } from "../../meta/status.ts";
import { forbiddenValue, invalidValue, tooLongValue, unsupportedValue } from "../../meta/causes.ts";

/** Maximum length of a field manager. Source: Kubernetes meta/v1 validation FieldManagerMaxLength. */
const MANAGER_MAX_BYTES = 128;
const UNPRINTABLE = /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/u;
const FIELD_VALIDATIONS: readonly string[] = ["", "Ignore", "Strict", "Warn"];

const OPTIONS_KINDS = {
  create: "CreateOptions",
  update: "UpdateOptions",
  patch: "PatchOptions",
} as const;

export function rejectInvalidOptions(kind: string, causes: readonly Cause[]): void {
  if (causes.length > 0) {
    throw invalid({ group: "meta.k8s.io", resource: "", kind }, "", causes);
  }
}

function printGoList(texts: readonly string[]): string {
  return `[]string{${texts.map((text) => JSON.stringify(text)).join(", ")}}`;
}

export function dryRunCauses(values: readonly string[]): Cause[] {
  if (values.every((value) => value === "All")) {
    return [];
  }
  const message = `Unsupported value: ${printGoList(values)}: supported values: "All"`;
  return [{ reason: "FieldValueNotSupported", message, field: "dryRun" }];
}

function managerCauses(manager: string): Cause[] {
  const [rune] = UNPRINTABLE.exec(manager) ?? [];
  return [
    ...(Buffer.byteLength(manager) > MANAGER_MAX_BYTES
      ? [tooLongValue("fieldManager", MANAGER_MAX_BYTES)]
      : []),
    ...(rune === undefined
      ? []
      : [invalidValue("fieldManager", manager, `invalid character ${JSON.stringify(rune)}`)]),
  ];
}

/** Checks the options of create, update and patch. Throws a StatusError 422 if an option is invalid. */
export function checkWriteOptions(verb: string, query: URLSearchParams, contentType: string): void {
  if (verb !== "create" && verb !== "update" && verb !== "patch") {
    return;
  }
  const validation = query.get("fieldValidation") ?? "";
  const hasForce = verb === "patch" && query.has("force") && !contentType.includes("apply-patch");
  rejectInvalidOptions(OPTIONS_KINDS[verb], [
    ...(hasForce ? [forbiddenValue("force", "may not be specified for non-apply patch")] : []),
    ...managerCauses(query.get("fieldManager") ?? ""),
    ...dryRunCauses(query.getAll("dryRun")),
    ...(FIELD_VALIDATIONS.includes(validation)
      ? []
      : [unsupportedValue("fieldValidation", validation, FIELD_VALIDATIONS)]),
  ]);
}
