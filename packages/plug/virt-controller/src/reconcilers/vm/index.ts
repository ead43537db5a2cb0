// SPDX-License-Identifier: Apache-2.0
// The VM's part of a pass: a VM becomes a VMI, and its edits go into the VMI.
import { nextLookMs, planVm } from "@patchbay/core";
import { after, done, earliest, type Next } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { rethrow } from "../steps.ts";
import { actVm } from "./act.ts";
import { observeVm } from "./observe.ts";
import { reportVm } from "./report.ts";

/** One pass over one VM. Safe to repeat. */
export async function reconcileVm(key: string, deps: Deps): Promise<Next> {
  const facts = await observeVm(key, deps);
  if (facts === undefined) return done();
  const outcome = await actVm(planVm(facts), facts, deps);
  const reportMs = await reportVm(facts, outcome, deps);
  rethrow(outcome);
  // Nothing wakes the VM when its DataVolumes are there.
  const isMade = facts.missingDataVolumes.length > 0 && outcome.failures.length === 0;
  const lookMs = earliest([outcome.againMs, reportMs, isMade ? 0 : nextLookMs(facts)]);
  return lookMs === undefined ? done() : after(lookMs);
}
