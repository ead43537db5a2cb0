// SPDX-License-Identifier: Apache-2.0
// The VMI's part of a pass: a VMI becomes a launcher pod, its ifaces the pod's networks, and the pod's networks its attachments.
import { names } from "@patchbay/api";
import { planVmi } from "@patchbay/core";
import { after, done, type Next } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { rethrow } from "../steps.ts";
import { actVmi } from "./act.ts";
import { observeVmi } from "./observe.ts";
import { reportVmi } from "./report.ts";

/** One pass over one VMI. Safe to repeat. */
export async function reconcileVmi(key: string, deps: Deps): Promise<Next> {
  const facts = await observeVmi(key, deps);
  if (facts === undefined) return done();
  const plan = planVmi(facts);
  const outcome = await actVmi(plan, facts, deps);
  const isKept = facts.vmi.metadata.finalizers?.includes(names.VMI_FINALIZER) === true;
  // Without the finalizer the VMI may be gone already.
  const isLetGo = plan.some(({ kind }) => kind === "removeFinalizer");
  if (isKept && !isLetGo) await reportVmi(facts, outcome, deps);
  rethrow(outcome);
  return outcome.againMs === undefined ? done() : after(outcome.againMs);
}
