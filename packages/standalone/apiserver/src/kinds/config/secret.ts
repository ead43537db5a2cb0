// SPDX-License-Identifier: Apache-2.0
import { type Cause, badRequest } from "../../meta/status.ts";
import { invalidValue, requiredValue } from "../../meta/causes.ts";
import { asFields, textAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { dataCauses, immutableCauses } from "./config-map.ts";
import { type Kind, defineKind } from "../kind.ts";

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

export const TOKEN_SECRET_TYPE = "kubernetes.io/service-account-token";

export const ACCOUNT_NAME_ANNOTATION = "kubernetes.io/service-account.name";
export const ACCOUNT_UID_ANNOTATION = "kubernetes.io/service-account.uid";

const REQUIRED_KEYS: Readonly<Record<string, readonly string[]>> = {
  "kubernetes.io/tls": ["tls.crt", "tls.key"],
  "kubernetes.io/dockerconfigjson": [".dockerconfigjson"],
  "kubernetes.io/ssh-auth": ["ssh-privatekey"],
};

/** Moves the write-only stringData to data, encoded as base64. Throws a StatusError 400 if data contains invalid base64. */
function applyDefaults(secret: KubeObject): void {
  const data = asFields(secret["data"]);
  for (const value of Object.values(data)) {
    if (typeof value === "string" && !BASE64.test(value.replace(/[\r\n]/g, ""))) {
      throw badRequest(
        'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 0',
      );
    }
  }
  for (const [key, value] of Object.entries(asFields(secret["stringData"]))) {
    data[key] = Buffer.from(String(value)).toString("base64");
  }
  if (Object.keys(data).length > 0) {
    secret["data"] = data;
  }
  Reflect.deleteProperty(secret, "stringData");
  secret["type"] ??= "Opaque";
}

function accountAnnotationCauses(secret: KubeObject): Cause[] {
  const hasAccountName = textAt(secret, "metadata", "annotations", ACCOUNT_NAME_ANNOTATION) !== "";
  return secret["type"] === TOKEN_SECRET_TYPE && !hasAccountName
    ? [requiredValue(`metadata.annotations[${ACCOUNT_NAME_ANNOTATION}]`)]
    : [];
}

function validate(secret: KubeObject): Cause[] {
  const requiredKeys = REQUIRED_KEYS[textAt(secret, "type")] ?? [];
  const data = asFields(secret["data"]);
  const missingKeys = requiredKeys.filter((key) => !Object.hasOwn(data, key));
  return [
    ...accountAnnotationCauses(secret),
    ...missingKeys.map((key) => requiredValue(`data[${key}]`)),
    ...dataCauses(secret, ["data"]),
  ];
}

function validateUpdate(secret: KubeObject, current: KubeObject): Cause[] {
  const isTypeChanged = secret["type"] !== current["type"];
  return [
    ...(isTypeChanged ? [invalidValue("type", secret["type"], "field is immutable")] : []),
    ...immutableCauses(secret, current, ["data"]),
  ];
}

export const SECRET: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "secrets",
  kind: "Secret",
  strategy: {
    applyDefaults,
    validate,
    validateUpdate,
    selectableFields: { type: (secret) => textAt(secret, "type") },
    columns: [
      { name: "Type", type: "string", cell: (secret) => textAt(secret, "type") },
      {
        name: "Data",
        type: "integer",
        cell: (secret) => Object.keys(asFields(secret["data"])).length,
      },
      AGE,
    ],
  },
});
