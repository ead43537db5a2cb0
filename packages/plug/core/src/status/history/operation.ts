// SPDX-License-Identifier: Apache-2.0
// What was seen of a NIC ↔ an operation, as it is kept.
import type { IfaceOperation, IfaceStatus, OperationEnd } from "@patchbay/api";
import { dropAbsent } from "../../drop-absent.ts";
import type { IfaceStage, IfaceStory, Moment } from "../ifaces/story.ts";
import { toMs } from "../../time.ts";

/** Words of others are cut after so many characters. */
const MESSAGE_MAX = 200;

function cut(message: string | undefined): string | undefined {
  if (message === undefined || message.length <= MESSAGE_MAX) return message;
  return `${message.slice(0, MESSAGE_MAX - 1)}…`;
}

/** The operation with what holds it up; what a step has met is told with how often it was tried. */
export function withHindrance(
  operation: IfaceOperation,
  hotplug: IfaceStatus["hotplug"],
): IfaceOperation {
  if (hotplug?.attempts === undefined) return operation;
  const { reason, message, attempts } = hotplug;
  return { ...operation, ...dropAbsent({ reason, message: cut(message), attempts }) };
}

/** The operation that goes on; the phase that it is in has no length yet. */
export function operationOf(story: IfaceStory): IfaceOperation {
  const { type, networkName, startTimestamp, spent, phase, heldUpBy } = story;
  const over = spent.map((each) => ({ phase: each.phase, milliseconds: Math.round(each.ms) }));
  const isAgain = over.some((each) => each.phase === phase);
  return dropAbsent({
    type,
    networkName,
    startTimestamp,
    phases: isAgain ? over : [...over, { phase }],
    reason: heldUpBy?.reason,
    message: cut(heldUpBy?.message),
    attempts: heldUpBy?.attempts,
  });
}

/** How it has ended, by what the NIC has come to; undefined: nothing is left of it. */
function outcomeOf(story: IfaceStory, next: IfaceStage | undefined): OperationEnd {
  const isReady = next?.phase === "Ready";
  const isDone = {
    Plug: isReady,
    Swap: isReady && next.podInterfaceName !== story.podInterfaceName,
    // Once the guest has let go of the device it is not taken back any more.
    Unplug: next === undefined || (!isReady && story.phase !== "Detaching"),
  }[story.type];
  return isDone ? "Done" : "Cancelled";
}

/** The operation when it is over, since the NIC has come to `next`. */
export function endedOperation(
  story: IfaceStory,
  next: IfaceStage | undefined,
  { nowMs, now }: Moment,
): IfaceOperation {
  const { phases, ...operation } = operationOf(story);
  const lastMs = Math.round(nowMs - story.phaseMs);
  return {
    ...operation,
    phases: phases.map((each) =>
      each.phase === story.phase
        ? { ...each, milliseconds: (each.milliseconds ?? 0) + lastMs }
        : each,
    ),
    endTimestamp: now,
    outcome: outcomeOf(story, next),
  };
}

/**
 * The story of an operation that another process has seen begin, or another node, when the NIC hung on that one of the
 * pod: how long its phase has lasted is reckoned by the clocks of both.
 */
export function storyOf(
  operation: IfaceOperation,
  podInterfaceName: string,
  { nowMs, now }: Moment,
): IfaceStory | undefined {
  const { type, startTimestamp, networkName, phases, reason, message, attempts } = operation;
  const phase = phases.at(-1)?.phase;
  if (type === "LinkState" || phase === undefined) return undefined;
  const spent = phases.flatMap(({ phase: over, milliseconds: ms }) =>
    ms === undefined ? [] : [{ phase: over, ms }],
  );
  const agoMs = Math.max(0, (toMs(now) ?? 0) - (toMs(startTimestamp) ?? 0));
  const begunMs = nowMs - agoMs;
  return dropAbsent({
    type,
    isWhole: true,
    begunMs,
    phase,
    phaseMs: Math.min(nowMs, begunMs + spent.reduce((sum, { ms }) => sum + ms, 0)),
    spent,
    startTimestamp,
    isLive: true,
    isRepair: false,
    networkName,
    podInterfaceName,
    heldUpBy: reason === undefined ? undefined : dropAbsent({ reason, message, attempts }),
  });
}
