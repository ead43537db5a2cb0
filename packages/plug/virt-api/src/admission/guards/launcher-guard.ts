// SPDX-License-Identifier: Apache-2.0
// Whether a pod may be written so: what net-agent and Multus say of a launcher's networks, they say by its status, which
// only they may write; whoever may edit pods could say it by the pod.
import { names } from "@patchbay/api";
import { ALLOWED, fieldsOf, type AdmissionRequest, type Verdict } from "../review.ts";

/** Where words of a pod are that are not its author's; `patchbay install` and standalone ask by the same ones. */
const GUARDED = [
  ["labels", names.KUBEVIRT_LABEL],
  ["annotations", names.NETWORK_STATUS_ANNOTATION],
  ["annotations", names.ATTACHMENT_ERRORS_ANNOTATION],
] as const;

function wordOf(object: unknown, place: string, key: string): unknown {
  return fieldsOf(fieldsOf(fieldsOf(object)["metadata"])[place])[key];
}

function isLauncher(object: unknown): boolean {
  return wordOf(object, "labels", names.KUBEVIRT_LABEL) === names.LAUNCHER_LABEL_VALUE;
}

/** Judges a write of a pod; the label that makes it one of those that are judged cannot be taken away first. */
export function guardLauncher({ object, oldObject }: AdmissionRequest): Verdict {
  if (!isLauncher(oldObject)) return ALLOWED;
  const changed = GUARDED.find(
    ([place, key]) => wordOf(object, place, key) !== wordOf(oldObject, place, key),
  );
  if (changed === undefined) return ALLOWED;
  const [place, key] = changed;
  const message = `metadata.${place}["${key}"] of a launcher is written by its node only, through pods/status`;
  return { allowed: false, code: 403, message, causes: [] };
}
