// SPDX-License-Identifier: Apache-2.0
import type { JSX } from "preact";
import { changeId, describeChange } from "../model/changes.ts";
import { printCommand, printYaml } from "../model/commands.ts";
import { findCheckableChange, NO_PLUG_CHECK, type PlugCheck } from "../model/probation.ts";
import { nicRight } from "../model/rights.ts";
import { escapeLines, toShortText } from "../model/shown.ts";
import type { Actions, ViewProps } from "./actions.ts";
import {
  isAllowed,
  isBusy,
  isSending,
  isSent,
  type PendingChange,
  type PanelState,
} from "./state.ts";

const VERDICTS = { live: "live", start: "at next start", refused: "refused" } as const;
const OUTCOMES = {
  sending: "sending…",
  checking: "checking…",
  done: "done",
  unfit: "does not work",
  failed: "failed",
} as const;

/** Returns the verdict to show. The combined verdict takes precedence over the change's own verdict, unless that is a refusal. */
function effectiveVerdict({ verdict, combinedVerdict }: PendingChange): PendingChange["verdict"] {
  return verdict?.kind === "refused" ? verdict : (combinedVerdict ?? verdict);
}

function findBadge(pendingChange: PendingChange): readonly [string, string] {
  const { outcome } = pendingChange;
  const verdict = effectiveVerdict(pendingChange);
  if (outcome !== undefined) return [outcome.kind, OUTCOMES[outcome.kind]];
  if (verdict === undefined) return ["asking", "loading…"];
  return [verdict.kind, VERDICTS[verdict.kind]];
}

interface RowProps {
  readonly pendingChange: PendingChange;
  readonly plugCheck: PlugCheck;
  readonly actions: Actions;
}

function Equivalent({
  pendingChange: { change, verdict },
  plugCheck,
  actions,
}: RowProps): JSX.Element {
  const objects = actions.findVmObjects(change);
  const own = findCheckableChange(change, verdict) === undefined ? NO_PLUG_CHECK : plugCheck;
  return (
    <details class="same">
      <summary>Do the same by hand</summary>
      <h3>Command</h3>
      <pre tabIndex={0}>{escapeLines(printCommand(change, objects, own))}</pre>
      <h3>YAML</h3>
      <pre tabIndex={0}>{escapeLines(printYaml(change, objects))}</pre>
    </details>
  );
}

function ChangeRow({ pendingChange, plugCheck, actions }: RowProps): JSX.Element {
  const { change, outcome } = pendingChange;
  const [kind, word] = findBadge(pendingChange);
  const text = outcome?.text ?? effectiveVerdict(pendingChange)?.text ?? "";
  const sentence = describeChange(change);
  return (
    <li class={`change change-${kind}`}>
      <span class={`badge badge-${kind}`}>{word}</span>
      <div class="change-words">
        <bdi class="change-title">{escapeLines(sentence)}</bdi>
        {text === "" ? null : <bdi class="change-text">{text}</bdi>}
        <Equivalent pendingChange={pendingChange} plugCheck={plugCheck} actions={actions} />
      </div>
      <button
        type="button"
        class="quiet"
        aria-label={`Drop: ${toShortText(sentence)}`}
        disabled={isBusy(pendingChange)}
        onClick={() => {
          actions.drop(change);
        }}
      >
        ✕
      </button>
    </li>
  );
}

function printCount(count: number): string {
  return count === 1 ? "1 change gathered" : `${String(count)} changes gathered`;
}

/** Returns whether the change is a plug that can be checked, and the user has the rights to check the plug and to unplug it again. */
function mayCheck(state: PanelState, { change, verdict }: PendingChange): boolean {
  const plug = findCheckableChange(change, verdict);
  if (plug === undefined) return false;
  const { namespace, kind } = plug.unit;
  return (
    isAllowed(state, namespace, "doctor") && isAllowed(state, namespace, nicRight("pull", kind))
  );
}

/** Options for the check of plugs, shown only if a plug into a running guest is pending. */
function CheckOptions({ state, actions }: ViewProps): JSX.Element | null {
  const { isOn, keepsFaulty } = state.plugCheck;
  const waiting = state.pendingChanges.filter((each) => !isSent(each));
  if (!waiting.some((each) => mayCheck(state, each))) return null;
  return (
    <fieldset class="probation" disabled={state.pendingChanges.some(isSending)}>
      <legend>After Apply</legend>
      <label>
        <input
          type="checkbox"
          checked={isOn}
          onChange={() => {
            actions.setPlugCheck({ isOn: !isOn });
          }}
        />
        Check that frames pass once the plug is in use, and unplug it again if a fault in the guest
        or its pod stops them
      </label>
      {isOn ? (
        <label>
          <input
            type="checkbox"
            checked={keepsFaulty}
            onChange={() => {
              actions.setPlugCheck({ keepsFaulty: !keepsFaulty });
            }}
          />
          Keep it plugged even if frames do not pass
        </label>
      ) : null}
    </fieldset>
  );
}

function findHint(pendingChanges: readonly PendingChange[]): string {
  if (!pendingChanges.every(isSent)) return "Nothing happens before Apply.";
  if (!pendingChanges.some(isBusy)) return "The rack shows their progress.";
  return "New plugs are being checked; keep this page open until the result is shown.";
}

/** Footer with a fixed position, because a button that moves under the pointer would lose the click. */
function Footer({ state: { pendingChanges }, actions }: ViewProps): JSX.Element {
  const waiting = pendingChanges.filter((each) => !isSent(each));
  const isAtWork = pendingChanges.some(isSending);
  const isLoadingVerdict = waiting.some(({ verdict }) => verdict === undefined);
  const isAllDone = waiting.length === 0;
  return (
    <div class="changes-foot">
      <h2>{isAllDone ? "All changes are sent" : printCount(waiting.length)}</h2>
      <span class="hint">{findHint(pendingChanges)}</span>
      <span class="spring" />
      <button
        type="button"
        class="quiet"
        disabled={isAtWork || pendingChanges.every(isBusy)}
        onClick={() => {
          actions.dropAll();
        }}
      >
        {isAllDone ? "Close" : "Drop all"}
      </button>
      {isAllDone ? null : (
        <button
          type="button"
          class="main apply"
          disabled={isAtWork || isLoadingVerdict}
          onClick={() => {
            void actions.apply();
          }}
        >
          Apply
        </button>
      )}
    </div>
  );
}

export function Changes({ state, actions }: ViewProps): JSX.Element | null {
  const { pendingChanges, plugCheck } = state;
  if (pendingChanges.length === 0) return null;
  return (
    <section class="changes" aria-label="Changes">
      <ul class="change-list">
        {pendingChanges.map((each) => (
          <ChangeRow
            key={changeId(each.change)}
            pendingChange={each}
            plugCheck={plugCheck}
            actions={actions}
          />
        ))}
      </ul>
      <CheckOptions state={state} actions={actions} />
      <Footer state={state} actions={actions} />
    </section>
  );
}
