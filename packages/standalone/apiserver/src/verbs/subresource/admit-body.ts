// SPDX-License-Identifier: Apache-2.0
// Admission of subresource bodies that have their own kinds: Binding, Eviction, TokenRequest.
import { type GroupVersionKind, toWriteOptions } from "../../admission/admission.ts";
import { apiVersionOf } from "../../kinds/kind.ts";
import { type Fields, asFields, textAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { successBody } from "../../meta/status.ts";
import { type Call, type Reply, isDryRun } from "../call.ts";
import type { VerbDeps } from "../deps.ts";

/** Response to a created Binding or Eviction. These objects are not stored. */
export const CREATED_REPLY: Reply = {
  type: "fields",
  code: 201,
  fields: { ...successBody({}), details: undefined, code: 201 },
};

export interface SubresourceBody {
  readonly kind: GroupVersionKind;
  readonly body: Fields;
  /** Operation for admission; unset means CREATE. */
  readonly operation?: "CONNECT";
}

export async function admitBody(
  call: Call,
  deps: Pick<VerbDeps, "admission">,
  bodyOptions: SubresourceBody,
): Promise<KubeObject> {
  const { kind, body, operation = "CREATE" } = bodyOptions;
  const metadata = asFields(body["metadata"]);
  const object: KubeObject = {
    ...body,
    apiVersion: textAt(body, "apiVersion") || apiVersionOf(kind),
    kind: kind.kind,
    metadata: { ...metadata, name: textAt(metadata, "name") || call.name },
  };
  const request = {
    kind: call.kind,
    bodyKind: kind,
    subresource: call.subresource,
    operation,
    namespace: call.namespace,
    name: call.name,
    oldObject: undefined,
    options: operation === "CONNECT" ? null : toWriteOptions("CreateOptions", call.query),
    user: call.user,
    dryRun: isDryRun(call.query),
    warnings: call.warnings,
  } as const;
  const admittedBody = await deps.admission.mutate(
    { ...request, object },
    (changedBody) => changedBody,
  );
  await deps.admission.validate({ ...request, object: admittedBody });
  return admittedBody;
}
