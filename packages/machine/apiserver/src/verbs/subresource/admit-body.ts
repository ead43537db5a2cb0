// SPDX-License-Identifier: Apache-2.0
// Asks admission about the body of a subresource that is an object of its own: Binding, Eviction, TokenRequest.
import { type GroupVersionKind, writeOptions } from "../../admission/admission.ts";
import { apiVersionOf } from "../../kinds/kind.ts";
import { type Fields, fieldsOf, textAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { successBody } from "../../meta/status.ts";
import { type Call, type Reply, isDryRun } from "../call.ts";
import type { VerbDeps } from "../deps.ts";

/** What a client gets whose Binding or Eviction was done: it is not an object that could be shown. */
export const CREATED: Reply = {
  type: "fields",
  code: 201,
  fields: { ...successBody({}), details: undefined, code: 201 },
};

/** The body of a subresource, before it is an object. */
export interface SubresourceBody {
  readonly kind: GroupVersionKind;
  readonly body: Fields;
  /** Absent: the body makes something. */
  readonly operation?: "CONNECT";
}

/** The body as admission leaves it. Throws a StatusError where it is refused. */
export async function admitBody(
  call: Call,
  deps: Pick<VerbDeps, "admission">,
  given: SubresourceBody,
): Promise<KubeObject> {
  const { kind, body, operation = "CREATE" } = given;
  const metadata = fieldsOf(body["metadata"]);
  const object: KubeObject = {
    ...body,
    apiVersion: textAt(body, "apiVersion") || apiVersionOf(kind),
    kind: kind.kind,
    metadata: { ...metadata, name: textAt(metadata, "name") || call.name },
  };
  const question = {
    kind: call.kind,
    bodyKind: kind,
    subresource: call.subresource,
    operation,
    namespace: call.namespace,
    name: call.name,
    oldObject: undefined,
    options: operation === "CONNECT" ? null : writeOptions("CreateOptions", call.query),
    user: call.user,
    dryRun: isDryRun(call.query),
    warnings: call.warnings,
  } as const;
  const admitted = await deps.admission.mutate({ ...question, object }, (changed) => changed);
  await deps.admission.validate({ ...question, object: admitted });
  return admitted;
}
