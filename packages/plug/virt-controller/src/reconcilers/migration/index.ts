// SPDX-License-Identifier: Apache-2.0
// The migrations' part of a pass: a guest that is to leave its node gets a second pod, both nodes are told, and in the end one is left.
import { nextDeadlineMs, planMigrations } from "@patchbay/core";
import { after, done, earliest, type Next } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { rethrow } from "../steps.ts";
import { actMigrations } from "./act.ts";
import { observeMigrations } from "./observe.ts";
import { reportMigrations } from "./report.ts";

/** One pass over the migrations of the VMI of that name. Safe to repeat. */
export async function reconcileMigrations(key: string, deps: Deps): Promise<Next> {
  const facts = await observeMigrations(key, deps);
  if (facts === undefined) return done();
  const outcome = await actMigrations(planMigrations(facts), facts, deps);
  // What the VMI was not told is not told of the migration either.
  rethrow(outcome);
  await reportMigrations(facts, outcome, deps);
  const lookMs = earliest([outcome.againMs, nextDeadlineMs(facts)]);
  return lookMs === undefined ? done() : after(lookMs);
}
