// SPDX-License-Identifier: Apache-2.0
// Looks at what was plugged, once the guest has it: where its frames die, it is taken out again, unless it is to stay.
import type { DoctorReport } from "@patchbay/core";
import { readWay, send } from "../browser/ask.ts";
import { nowMs, pause } from "../browser/clock.ts";
import type { Session } from "../browser/session.ts";
import { asksOf } from "../model/changes.ts";
import { complaintOf, isInUse, stayOf, type PlugChange } from "../model/probation.ts";
import { isRefusal, wordsOf } from "../model/verdict.ts";
import { findUnit, type SentState, type PanelStore } from "./state.ts";

/** A plug takes a second; a network or a guest that is slow, more, milliseconds. */
const IN_USE_MS = 60_000;
/** A guest needs a moment to use what was just plugged: for so long nothing is called dead, milliseconds. */
const GRACE_MS = 15_000;
/** From one look to the next, milliseconds. */
const LOOK_MS = 2_000;

interface Looked {
  readonly store: PanelStore;
  readonly session: Session;
  readonly keeps: boolean;
}

/** Whether the guest has it within its time. */
function comesIntoUse(store: PanelStore, { unit, iface }: PlugChange): Promise<boolean> {
  const isThere = (): boolean => isInUse(findUnit(store.state, unit.key), iface);
  return new Promise((resolve) => {
    const end = (isInTime: boolean): void => {
      unsubscribe();
      resolve(isInTime);
    };
    const unsubscribe = store.subscribe(() => {
      if (isThere()) end(true);
    });
    if (isThere()) end(true);
    else
      void pause(IN_USE_MS).then(() => {
        end(false);
      });
  });
}

/** Until frames pass, or the guest has had its time. */
async function look(
  session: Session,
  { unit, iface }: PlugChange,
): Promise<DoctorReport | { readonly refused: string }> {
  const untilMs = nowMs() + GRACE_MS;
  for (;;) {
    const found = await readWay(session, unit, iface);
    const isOver = !("refused" in found) && complaintOf(found) === undefined;
    if (isOver || nowMs() >= untilMs) return found;
    await pause(LOOK_MS);
  }
}

async function takeOut(session: Session, { unit, iface }: PlugChange): Promise<string> {
  for (const ask of asksOf({ kind: "pull", unit, iface }, {})) {
    const answer = await send(session, ask, false);
    if (isRefusal(answer)) return `it could not be taken out again: ${wordsOf(answer)}`;
  }
  return "it is taken out again";
}

/** What came of it. What nobody could look at stays. */
export async function examinePlug(
  change: PlugChange,
  { store, session, keeps }: Looked,
): Promise<SentState> {
  const unlooked = "left in place, not checked";
  if (!(await comesIntoUse(store, change))) {
    return { kind: "done", text: `it was not in use within a minute: ${unlooked}` };
  }
  const found = await look(session, change);
  if ("refused" in found) return { kind: "done", text: `${unlooked}: ${found.refused}` };
  const complaint = complaintOf(found);
  if (complaint === undefined) return { kind: "done", text: "it is in use, and no hop is dead" };
  const stands = stayOf(found, keeps) ?? (await takeOut(session, change));
  return { kind: "unfit", text: `${complaint}; ${stands}` };
}
