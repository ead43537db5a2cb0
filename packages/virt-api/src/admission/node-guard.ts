// SPDX-License-Identifier: Apache-2.0
// Whether an agent may write the status of a VMI: only that of its own node, and only its own fields. Roles know no nodes.
import { names, VIRTUAL_MACHINE_INSTANCES } from "@patchbay/api";
import { isEqual } from "@patchbay/core";
import type { User } from "../call.ts";
import { ALLOWED, fieldsOf, type AdmissionRequest, type Verdict } from "./review.ts";

/** The account of all agents that write the status of VMIs. */
const AGENT = "system:serviceaccount:patchbay:virt-handler";
/** Node of the pod that a token is bound to. Source: Kubernetes 1.30 ServiceAccountTokenPodNodeInfo. */
const NODE_CLAIM = "authentication.kubernetes.io/node-name";
/** Fields of virt-controller that say where the VMI is and what its pod has: docs/reference/ownership.md. */
const FOREIGN_FIELDS = ["nodeName", "activePods", "attachments"] as const;

/** The node that an agent serves: its token names it, or a group of its certificate. Undefined where none or several are named. */
function nodeOf({ groups, extra }: User): string | undefined {
  const prefix = names.NODE_GROUP_PREFIX;
  const certified = groups.filter((group) => group.startsWith(prefix));
  const named = [
    ...(extra?.[NODE_CLAIM] ?? []),
    ...certified.map((group) => group.slice(prefix.length)),
  ];
  return named.length === 1 ? named[0] : undefined;
}

function statusOf(object: unknown): Readonly<Record<string, unknown>> {
  return fieldsOf(fieldsOf(object)["status"]);
}

/** The nodes on which the VMI was before this write. */
function nodesOf(oldObject: unknown): readonly unknown[] {
  const { nodeName, activePods } = statusOf(oldObject);
  return [...Object.values(fieldsOf(activePods)), ...(nodeName === undefined ? [] : [nodeName])];
}

function refuse(message: string): Verdict {
  return { allowed: false, code: 403, message, causes: [] };
}

/** Judges a write of the status of a VMI; what else is written with a status is not asked about. */
export function guardStatus(request: AdmissionRequest): Verdict {
  const { user, oldObject, object } = request;
  if (request.kind !== VIRTUAL_MACHINE_INSTANCES.kind || user.name !== AGENT) return ALLOWED;
  const node = nodeOf(user);
  if (node === undefined) {
    return refuse(
      `User "${user.name}" does not say which node it serves: neither by a bound token nor by a group ${names.NODE_GROUP_PREFIX}NODE`,
    );
  }
  if (!nodesOf(oldObject).includes(node)) {
    return refuse(`User "${user.name}" of node "${node}" may not write what is of another node`);
  }
  const [before, after] = [statusOf(oldObject), statusOf(object)];
  const foreign = FOREIGN_FIELDS.find((field) => !isEqual(before[field], after[field]));
  return foreign === undefined
    ? ALLOWED
    : refuse(`User "${user.name}" may not write status.${foreign}: it is virt-controller's`);
}
