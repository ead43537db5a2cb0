// SPDX-License-Identifier: Apache-2.0
// Bodies of addinterface and removeinterface. Source: KubeVirt v1.0.1 api/types.go, virt-api/rest/interfacehotplug.go.
import { isJsonObject, type Cause, type Iface, type JsonObject } from "@patchbay/api";
import { toRefusal, type Parsed } from "./refusal.ts";

export type IfaceFields = Omit<Iface, "name">;

/** Source: KubeVirt v1.0.1 AddInterfaceOptions. `fields` is a Patchbay extension. */
export interface AddIfaceRequest {
  readonly name: string;
  /** NAME or NAMESPACE/NAME. */
  readonly networkAttachmentDefinitionName: string;
  readonly fields: IfaceFields;
}

/** Source: KubeVirt v1.0.1 RemoveInterfaceOptions. */
export interface RemoveIfaceRequest {
  readonly name: string;
}

type FieldKind = "string" | "integer" | "object" | "list";

/** Fields of KubeVirt's Interface, and Patchbay's for the network selection element. */
const IFACE_FIELDS: Readonly<Record<string, FieldKind>> = {
  model: "string",
  macAddress: "string",
  state: "string",
  pciAddress: "string",
  acpiIndex: "integer",
  bootOrder: "integer",
  tag: "string",
  dhcpOptions: "object",
  bridge: "object",
  sriov: "object",
  binding: "object",
  ips: "list",
  ipamClaimName: "string",
  cniArgs: "object",
};
/** Members that some clients send and that have no effect. */
const IGNORED_FIELDS: readonly string[] = ["apiVersion", "kind", "dryRun"];

function isOfKind(value: unknown, kind: FieldKind): boolean {
  if (kind === "integer") return Number.isInteger(value);
  if (kind === "list") return Array.isArray(value) && value.every((at) => typeof at === "string");
  return kind === "object" ? isJsonObject(value) : typeof value === "string";
}

function refused(causes: readonly Cause[], message?: string): Parsed<never> {
  return { ok: false, refusal: toRefusal(400, causes, message) };
}

function requiredCauses(
  options: string,
  body: JsonObject,
  names: readonly string[],
): readonly Cause[] {
  return names.flatMap((field): readonly Cause[] => {
    const value = body[field];
    if (value === undefined || value === null || value === "") {
      const message = `${options} requires \`${field}\` to be set`;
      return [{ reason: "FieldValueRequired", field, message }];
    }
    return typeof value === "string"
      ? []
      : [{ reason: "FieldValueInvalid", field, message: `${field} must be a string` }];
  });
}

function fieldCauses(
  body: JsonObject,
  kinds: Readonly<Record<string, FieldKind>>,
): readonly Cause[] {
  return Object.entries(body).flatMap(([field, value]): readonly Cause[] => {
    const kind = kinds[field];
    if (IGNORED_FIELDS.includes(field)) return [];
    if (kind === undefined) {
      const message = `unknown field "${field}"`;
      return [{ reason: "FieldValueNotSupported", field, message }];
    }
    return isOfKind(value, kind) || value === null
      ? []
      : [{ reason: "FieldValueInvalid", field, message: `${field} must be of type ${kind}` }];
  });
}

/** Reports a missing name with the request's path. The schema would name a path of the spec. */
function bindingCauses({ binding }: JsonObject): readonly Cause[] {
  if (!isJsonObject(binding) || typeof binding["name"] === "string") return [];
  const field = "binding.name";
  return [{ reason: "FieldValueRequired", field, message: `${field} must be a string` }];
}

function checkBody(
  options: string,
  body: unknown,
  fields: { readonly required: readonly string[]; readonly more: typeof IFACE_FIELDS },
): Parsed<JsonObject> {
  if (body === undefined) return refused([], "no request body, unable to decode options");
  if (!isJsonObject(body)) {
    const message = "cannot unmarshal Request body to struct, error: the body is not a JSON object";
    return refused([], message);
  }
  const required = requiredCauses(options, body, fields.required);
  const rest = Object.entries(body).filter(([field]) => !fields.required.includes(field));
  const causes = [
    ...required,
    ...fieldCauses(Object.fromEntries(rest), fields.more),
    ...bindingCauses(body),
  ];
  // KubeVirt's clients match the first message, so it stays the overall message.
  return causes.length === 0 ? { ok: true, value: body } : refused(causes, causes[0]?.message);
}

function readText(body: JsonObject, field: string): string {
  const value = body[field];
  return typeof value === "string" ? value : "";
}

export function parseAddIface(body: unknown): Parsed<AddIfaceRequest> {
  const required = ["networkAttachmentDefinitionName", "name"];
  const checked = checkBody("AddInterfaceOptions", body, { required, more: IFACE_FIELDS });
  if (!checked.ok) return checked;
  const presentFields = Object.entries(checked.value).filter(
    ([field, value]) => field in IFACE_FIELDS && value !== null && value !== "",
  );
  return {
    ok: true,
    value: {
      name: readText(checked.value, "name"),
      networkAttachmentDefinitionName: readText(checked.value, "networkAttachmentDefinitionName"),
      fields: Object.fromEntries(presentFields),
    },
  };
}

export function parseRemoveIface(body: unknown): Parsed<RemoveIfaceRequest> {
  const checked = checkBody("RemoveInterfaceOptions", body, { required: ["name"], more: {} });
  return checked.ok ? { ok: true, value: { name: readText(checked.value, "name") } } : checked;
}
