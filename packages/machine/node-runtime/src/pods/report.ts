// SPDX-License-Identifier: Apache-2.0
// Writes what became of the pod into its status; nothing when it says so already.
import { PODS } from "@patchbay/api";
import { covers } from "@patchbay/core";
import { keyOf, printTime } from "@patchbay/kube";
import { hasForeignCondition } from "../status/conditions.ts";
import { podStatusOf } from "../status/pod-status.ts";
import type { PodDeps } from "./deps.ts";
import { lastingRefusal, type LivePodFacts } from "./facts.ts";

/** Reports on `facts`, which were read after the actions. */
export async function report(facts: LivePodFacts, deps: PodDeps): Promise<void> {
  const { pod } = facts;
  const now = printTime(deps.clock.now());
  const { runtimeName: runtime, node } = deps;
  const status = podStatusOf(facts, { printTime, runtime, hostIp: node.hostIp, now });
  if (covers(pod.status, status)) return;
  const refusal = lastingRefusal(facts);
  if (refusal !== undefined) deps.recorder.record(pod, { type: "Warning", ...refusal });
  // Lists that others write too are written whole: not over what they have added meanwhile.
  const isShared = hasForeignCondition(status.conditions ?? []);
  const { resourceVersion } = pod.metadata;
  const fields = { status, ...(isShared && { metadata: { resourceVersion } }) };
  await deps.store.patch(PODS, keyOf(pod), { type: "merge", fields }, { subresource: "status" });
}
