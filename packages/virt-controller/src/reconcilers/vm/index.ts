// SPDX-License-Identifier: Apache-2.0
// The VM loop: a VM becomes a VMI, and its edits go into the VMI.
import { nextLookMs, planVm } from "@patchbay/core";
import { after, done, type Next } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { earlier, rethrow } from "../steps.ts";
import { actVm } from "./act.ts";
import { observeVm } from "./observe.ts";
import { reportVm } from "./report.ts";

/** One pass over one VM. Safe to repeat. */
export async function reconcileVm(key: string, deps: Deps): Promise<Next> {
  const facts = await observeVm(key, deps);
  if (facts === undefined) return done();
  const outcome = await actVm(planVm(facts), facts, deps);
  await reportVm(facts, outcome, deps);
  rethrow(outcome);
  const lookMs = earlier(outcome.againMs, nextLookMs(facts));
  return lookMs === undefined ? done() : after(lookMs);
}
