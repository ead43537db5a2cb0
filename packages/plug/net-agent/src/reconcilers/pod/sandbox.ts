// SPDX-License-Identifier: Apache-2.0
// Where does the pod live, and what is told when the container runtime does not say?
import type { AttachmentError, Pod } from "@patchbay/api";
import { AppError, reasonOf } from "@patchbay/core";
import type { Sandbox } from "@patchbay/core/ports";
import type { Deps } from "../../deps.ts";

/** The container runtime does not answer. */
export interface Silence {
  readonly error: unknown;
  /** What is told of it; the words of its first failure. */
  readonly told: AttachmentError;
}

/** What is told of an error of the runtime, once of the pod; undefined for an error that is none of it. */
export function findSilence(
  { pod, uid, error }: { pod: Pod | undefined; uid: string; error: unknown },
  deps: Deps,
): Silence | undefined {
  if (reasonOf(error) !== "RuntimeUnavailable") return undefined;
  const step = { scope: uid, name: "sandbox", circumstances: "" };
  const before = deps.failures.lastOf(step);
  const { shown: told } = deps.failures.explain(step, error);
  if (pod !== undefined && told !== before) {
    deps.events.record(pod, { type: "Warning", ...told, about: "sandbox" });
  }
  return { error, told };
}

/** The sandbox, where the pod still needs one; `none` when it is too early for it. */
export async function findSandbox(
  key: string,
  uid: string,
  found: { readonly pod: Pod | undefined; readonly isOver: boolean; readonly deps: Deps },
): Promise<Sandbox | undefined | "none"> {
  const sandbox = await found.deps.sandboxes.find(uid);
  // One that is of another pod is none.
  const isOwn = sandbox !== undefined && `${sandbox.pod.namespace}/${sandbox.pod.name}` === key;
  if (isOwn) return sandbox;
  if (found.isOver) return undefined;
  if (found.pod?.spec.hostNetwork === true) return undefined;
  // Before it runs, the pod's own changes tell when to look again.
  if (found.pod?.status?.phase !== "Running") return "none";
  throw new AppError("SANDBOX_NOT_FOUND", { pod: key });
}
