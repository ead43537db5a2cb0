// SPDX-License-Identifier: Apache-2.0
// Carries out a plan, one CNI operation after the other. One attachment that fails holds up no other.
import type { AttachmentError } from "@patchbay/api";
import type { Step } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import { adopt } from "./attachment/adopt.ts";
import { attach } from "./attachment/attach.ts";
import { detach } from "./attachment/detach.ts";
import { nameInUseError, type Holder } from "./name-in-use.ts";
import type { PodFacts } from "./observe.ts";
import { interfaceOf, networkOf, stepOf, type Action } from "./step.ts";
import { tellFailed, tellFound } from "./tell.ts";

/** What is still wrong after the steps of a plan, and when to look again. */
export interface Outcome {
  /** By NIC in the pod; also of what is left alone after a failure. */
  readonly errors: ReadonlyMap<string, AttachmentError>;
  /** When the first of the failed steps may be tried again, milliseconds; undefined: none has failed. */
  readonly againMs: number | undefined;
}

/** Performs the actions in order, but for those that are left alone. Never throws for an attachment's sake. */
export async function act(
  actions: readonly Action[],
  facts: PodFacts,
  deps: Deps,
): Promise<Outcome> {
  const errors = new Map<string, AttachmentError>();
  const pauses: number[] = [];
  deps.failures.retain(
    facts.uid,
    actions.map((action) => stepOf(action, facts, deps)),
  );
  const holders = new Map<string, Holder>();
  for (const action of actions) {
    const interfaceName = interfaceOf(action);
    const holder = holders.get(interfaceName);
    const failed =
      action.kind === "add" && holder !== undefined
        ? { error: nameInUseError(action, { facts, holder }, deps) }
        : await tryOne(action, facts, deps);
    deps.turned?.();
    if (failed === undefined) {
      // What was adopted may be to go, which only the next look tells.
      if (action.kind === "adopt") pauses.push(0);
      continue;
    }
    errors.set(interfaceName, failed.error);
    if (action.kind === "del") {
      const { network } = action.owned;
      holders.set(interfaceName, { network, message: failed.error.message });
    }
    if (failed.pauseMs !== undefined) pauses.push(failed.pauseMs);
  }
  return { errors, againMs: pauses.length === 0 ? undefined : Math.min(...pauses) };
}

/** What is told while the runtime does not answer: each NIC that is to come or to go waits for it. */
export function heldUp(actions: readonly Action[], told: AttachmentError): Outcome {
  const waits = actions.filter(({ kind }) => kind === "add" || kind === "del");
  return {
    errors: new Map(waits.map((action) => [interfaceOf(action), told])),
    againMs: undefined,
  };
}

interface FailedAction {
  readonly error: AttachmentError;
  /** Undefined: only a change of the pod can mend it. */
  readonly pauseMs?: number;
}

async function tryOne(
  action: Action,
  facts: PodFacts,
  deps: Deps,
): Promise<FailedAction | undefined> {
  const step = stepOf(action, facts, deps);
  if (action.kind === "reportError") return tellError(action, { step, facts }, deps);
  const held = deps.failures.findHeld(step);
  if (held !== undefined) return { error: held.shown, pauseMs: held.pauseMs };
  try {
    await perform(action, facts, deps);
    deps.failures.succeed(step);
    return undefined;
  } catch (thrown) {
    const failed = deps.failures.fail(step, thrown, networkOf(action));
    tellFailed(action, { facts, thrown, failed }, deps);
    return failed;
  }
}

async function perform(
  action: Exclude<Action, { readonly kind: "reportError" }>,
  facts: PodFacts,
  deps: Deps,
): Promise<void> {
  switch (action.kind) {
    case "add":
      await attach(action.wanted, facts, deps);
      return;
    case "del":
      await detach(action.owned.row, facts, deps);
      return;
    case "adopt":
      await adopt(action.foreign, facts, deps);
      return;
    case "forget":
      await deps.journal.remove(action.owned.row);
  }
}

function tellError(
  { reason, message, interfaceName: about }: Extract<Action, { readonly kind: "reportError" }>,
  { step, facts }: { readonly step: Step; readonly facts: PodFacts },
  deps: Deps,
): FailedAction {
  const error = { reason, message };
  if (deps.failures.isNews(step, error)) tellFound(error, { facts, about }, deps);
  return { error };
}
