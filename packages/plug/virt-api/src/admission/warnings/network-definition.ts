// SPDX-License-Identifier: Apache-2.0
// What is whoever writes a NetworkAttachmentDefinition told about it? It is kept whatever it says: others may read it.
import { parseNetworkConfig } from "@patchbay/cni";
import { isEqual } from "@patchbay/core";
import { ALLOWED, fieldsOf, type AdmissionRequest, type Verdict } from "../review.ts";

function textIn(fields: Readonly<Record<string, unknown>>, name: string): string {
  const text = fields[name];
  return typeof text === "string" ? text : "";
}

/** Warns of a configuration with which nothing can be attached; which plugins there are is known on nodes only. */
export function warnOfDefinition({ namespace, object, oldObject }: AdmissionRequest): Verdict {
  const spec = fieldsOf(fieldsOf(object)["spec"]);
  if (isEqual(spec, fieldsOf(oldObject)["spec"])) return ALLOWED;
  const name = textIn(fieldsOf(fieldsOf(object)["metadata"]), "name");
  const title = `NetworkAttachmentDefinition ${namespace}/${name}`;
  const text = textIn(spec, "config");
  if (text === "") {
    const warning = `${title} has no spec.config: interfaces are attached to it only on nodes with a file that defines a network of that name, in the directory of net-agent's flag --definition-dir`;
    return { allowed: true, warnings: [warning] };
  }
  // One whose name is made by the server is not named yet.
  const parsed = parseNetworkConfig(text, name === "" ? "unnamed" : name);
  if (parsed.ok) return ALLOWED;
  const causes = parsed.causes.map(({ field, message }) => `${field}: ${message}`).join("; ");
  const warning = `${title} is stored, but no interface can be attached to it: ${causes}; correct it and apply it again`;
  return { allowed: true, warnings: [warning] };
}
