// SPDX-License-Identifier: Apache-2.0
// What becomes of fields that nobody knows or that are there twice: refused, told, or dropped in silence. Source: Kubernetes "Field validation".
import { parseObject } from "../../http/body.ts";
import { badRequest } from "../../meta/status.ts";
import { duplicateFields } from "../../objects/duplicate-fields.ts";
import type { KubeObject } from "../../objects/object.ts";
import { type Call, queueIfHeavy } from "../call.ts";
import type { VerbDeps } from "../deps.ts";
import { decodeObject } from "../decode.ts";

/** Source: Kubernetes apimachinery, a decoder names no more than that. */
const FAULTS_MAX = 100;
/** Of a path: below a key of a million characters, a hundred fields would be told with a hundred million. */
const PATH_MAX_LENGTH = 256;

type Mode = "Ignore" | "Strict" | "Warn";

/** The mode was checked with the other options of the write. */
function modeOf(call: Call): Mode {
  const mode = call.query.get("fieldValidation");
  return mode === "Ignore" || mode === "Strict" ? mode : "Warn";
}

function repeated(call: Call): readonly string[] {
  const { text, contentType } = call.body;
  return contentType.endsWith("yaml") ? [] : duplicateFields(text);
}

function shown(path: string): string {
  return path.length > PATH_MAX_LENGTH ? `${path.slice(0, PATH_MAX_LENGTH)}...` : path;
}

/** Speaks up about `unknown` fields, and about those that the body has twice, as the client asked (default: warn). Throws StatusErrors 400 and 422. */
export function checkFields(call: Call, unknown: readonly string[]): void {
  const mode = modeOf(call);
  if (mode === "Ignore") {
    return;
  }
  const faults = [
    ...repeated(call).map((path) => ({ what: "duplicate", path })),
    ...unknown.map((path) => ({ what: "unknown", path })),
  ];
  const told = faults
    .slice(0, FAULTS_MAX)
    .map(({ what, path }) => `${what} field "${shown(path)}"`);
  if (mode !== "Strict") {
    call.warnings.push(...told);
  } else if (told.length > 0) {
    const { kind, version } = call.kind;
    throw badRequest(
      `${kind} in version "${version}" cannot be handled as a ${kind}: strict decoding error: ${told.join(", ")}`,
    );
  }
}

/** Tells the client what its kind has to say of an object. */
export function warn(call: Call, object: KubeObject): void {
  call.warnings.push(...(call.kind.strategy.warnings?.(object) ?? []));
}

/** The object in the body of a call. Throws StatusErrors 400, 415 and 422. */
export async function readObjectOf(
  call: Call,
  deps: Pick<VerbDeps, "fairQueue">,
): Promise<KubeObject> {
  const fields = parseObject(call.body);
  await queueIfHeavy(call, deps, call.body.text.length);
  const { object, unknown } = decodeObject(call.kind, fields);
  await queueIfHeavy(call, deps, call.body.text.length);
  checkFields(call, unknown);
  warn(call, object);
  return object;
}
