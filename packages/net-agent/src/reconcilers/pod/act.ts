// SPDX-License-Identifier: Apache-2.0
// Carries out a plan, one CNI operation after the other. One attachment that fails holds up no other.
import { isAppError, messageOf, type AttachmentAction } from "@patchbay/core";
import { parseKey, type Step } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import type { AttachmentError } from "../../failures.ts";
import { adopt } from "./attachment/adopt.ts";
import { attach } from "./attachment/attach.ts";
import { detach } from "./attachment/detach.ts";
import type { OwnedRow, PodFacts } from "./observe.ts";

/** What a plan's steps came to. */
export interface Outcome {
  /** By NIC in the pod; also of what is left alone after a failure. */
  readonly errors: ReadonlyMap<string, AttachmentError>;
  /** When the first of the failed steps may be tried again, milliseconds; undefined: none has failed. */
  readonly againMs: number | undefined;
}

type Action = AttachmentAction<OwnedRow>;

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
  const holders = new Map<string, Extract<Action, { readonly kind: "del" }>>();
  for (const action of actions) {
    const interfaceName = interfaceOf(action);
    const holder = action.kind === "add" ? holders.get(interfaceName) : undefined;
    const failed =
      holder === undefined
        ? await tryOne(action, facts, deps)
        : { error: waitFor(holder, { action, facts, errors }, deps) };
    if (failed === undefined) {
      // What was adopted may be to go, which only the next look tells.
      if (action.kind === "adopt") pauses.push(0);
      continue;
    }
    errors.set(interfaceName, failed.error);
    if (action.kind === "del") holders.set(interfaceName, action);
    if (failed.pauseMs !== undefined) pauses.push(failed.pauseMs);
  }
  return { errors, againMs: pauses.length === 0 ? undefined : Math.min(...pauses) };
}

/**
 * A name that could not be freed is still in use, and its row is the recipe of its removal. What is told of the
 * attachment that waits is never the failure of another network; of its own, why it was not made.
 */
function waitFor(
  { owned }: Extract<Action, { readonly kind: "del" }>,
  waiting: {
    readonly action: Action;
    readonly facts: PodFacts;
    readonly errors: ReadonlyMap<string, AttachmentError>;
  },
  deps: Deps,
): AttachmentError {
  const { action, facts, errors } = waiting;
  const { interfaceName, network } = owned;
  const { message = "" } = errors.get(interfaceName) ?? {};
  const own = deps.failures.lastOf(stepOf(action, facts, deps));
  if (own !== undefined) return own;
  return action.kind === "add" && action.wanted.network === network
    ? { reason: "CniFailed", message }
    : {
        reason: "InterfaceNameTaken",
        message: `${interfaceName} is in use until ${network} is detached: ${message}`,
      };
}

function interfaceOf(action: Action): string {
  switch (action.kind) {
    case "add":
      return action.wanted.interfaceName;
    case "del":
    case "forget":
      return action.owned.interfaceName;
    case "adopt":
      return action.foreign.interfaceName;
    case "reportError":
      return action.interfaceName;
  }
}

/** What the action's outcome rests on: when it changes, a failure of before tells nothing. */
function circumstancesOf(action: Action, facts: PodFacts, deps: Deps): unknown {
  switch (action.kind) {
    case "add": {
      const { network, selection } = action.wanted;
      const config = deps.nads.find(parseKey(network))?.spec?.config;
      return [network, selection, config, facts.sandbox];
    }
    case "del":
    case "forget":
      return [action.owned.row.sequence, facts.sandbox, facts.attachments.pod];
    case "adopt":
      return [action.foreign, facts.sandbox];
    case "reportError":
      return [];
  }
}

function stepOf(action: Action, facts: PodFacts, deps: Deps): Step {
  const what = action.kind === "reportError" ? `: ${action.message}` : "";
  return {
    scope: facts.uid,
    name: `${action.kind} ${interfaceOf(action)}${what}`,
    circumstances: JSON.stringify(circumstancesOf(action, facts, deps)),
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
    const failed = deps.failures.fail(step, thrown);
    logFailure(action, { facts, thrown, retryMs: failed.pauseMs }, deps);
    const reason = action.kind === "del" ? "FailedRemovingInterface" : "FailedAddingInterface";
    const about = interfaceOf(action);
    const message = `${about}: ${failed.error.message}`;
    const note = { type: "Warning", reason, message, about } as const;
    if (facts.pod !== undefined) deps.events.record(facts.pod, note);
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
  if (deps.failures.isNews(step, error) && facts.pod !== undefined) {
    deps.events.record(facts.pod, { type: "Warning", reason, message, about });
  }
  return { error };
}

function logFailure(
  action: Action,
  failure: { readonly facts: PodFacts; readonly thrown: unknown; readonly retryMs: number },
  deps: Deps,
): void {
  const { facts, thrown, retryMs } = failure;
  const isKnown = isAppError(thrown);
  deps.log[isKnown ? "warn" : "error"]("attachment failed", {
    ...{ pod: facts.key, step: action.kind, link: interfaceOf(action), retryMs },
    ...(isKnown ? { code: thrown.code } : { err: thrown }),
    reason: messageOf(thrown),
  });
}
