// SPDX-License-Identifier: Apache-2.0
// Where does the pod live? As the container runtime tells it; that it does not answer is told to people.
import type { Pod } from "@patchbay/api";
import { AppError, sayWithAdvice } from "@patchbay/core";
import type { Sandbox } from "@patchbay/ports";
import type { Deps } from "../../deps.ts";

/** The container runtime does not tell where the pod is. The pass fails, and comes again by itself. */
function tellNoAnswer(
  { pod, uid, error }: { pod: Pod | undefined; uid: string; error: unknown },
  deps: Deps,
): void {
  if (pod === undefined) return;
  const told = { reason: "RuntimeUnavailable", message: sayWithAdvice(error) };
  if (!deps.failures.isNews({ scope: uid, name: "sandbox", circumstances: "" }, told)) return;
  deps.events.record(pod, { type: "Warning", ...told, about: "sandbox" });
}

/** What the runtime says; that it does not answer is told. One that is of another pod is none. */
async function askRuntime(
  key: string,
  uid: string,
  { pod, deps }: { readonly pod: Pod | undefined; readonly deps: Deps },
): Promise<Sandbox | undefined> {
  try {
    const sandbox = await deps.sandboxes.find(uid);
    return sandbox !== undefined && `${sandbox.pod.namespace}/${sandbox.pod.name}` === key
      ? sandbox
      : undefined;
  } catch (error) {
    tellNoAnswer({ pod, uid, error }, deps);
    throw error;
  }
}

/** The sandbox, where the pod still needs one; `none` when it is too early for it. */
export async function findSandbox(
  key: string,
  uid: string,
  found: { readonly pod: Pod | undefined; readonly isOver: boolean; readonly deps: Deps },
): Promise<Sandbox | undefined | "none"> {
  const sandbox = await askRuntime(key, uid, found);
  if (sandbox !== undefined || found.isOver) return sandbox;
  if (found.pod?.spec.hostNetwork === true) return undefined;
  // Before it runs, the pod's own changes tell when to look again.
  if (found.pod?.status?.phase !== "Running") return "none";
  throw new AppError("SANDBOX_NOT_FOUND", { pod: key });
}
