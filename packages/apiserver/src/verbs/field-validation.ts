// SPDX-License-Identifier: Apache-2.0
// What becomes of fields that nobody knows: refused, told, or dropped in silence. Source: Kubernetes "Field validation".
import { badRequest } from "../http/status.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Call } from "./call.ts";

const MODES: ReadonlySet<string> = new Set(["", "Warn", "Ignore", "Strict"]);

/** Looks for unknown fields, as the client asked (default: warn). Throws a StatusError 400. */
export function checkFields(call: Call, object: KubeObject): void {
  const mode = call.query.get("fieldValidation") ?? "";
  if (!MODES.has(mode)) {
    throw badRequest(
      `fieldValidation: Unsupported value: "${mode}": supported values: "Ignore", "Strict", "Warn"`,
    );
  }
  if (mode === "Ignore") {
    return;
  }
  const found = (call.kind.strategy.unknownFields?.(object) ?? []).map(
    (path) => `unknown field "${path}"`,
  );
  if (mode !== "Strict") {
    call.warnings.push(...found);
  } else if (found.length > 0) {
    const { kind, version } = call.kind;
    throw badRequest(
      `${kind} in version "${version}" cannot be handled as a ${kind}: strict decoding error: ${found.join(", ")}`,
    );
  }
}
