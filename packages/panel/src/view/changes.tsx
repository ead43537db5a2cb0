// SPDX-License-Identifier: Apache-2.0
// What was gathered: what the server says of each, what does the same by hand, and Apply.
import type { JSX } from "preact";
import { changeId, sentenceOf } from "../model/changes.ts";
import { commandOf, yamlOf } from "../model/commands.ts";
import { lines, short } from "../model/shown.ts";
import type { Actions } from "./actions.ts";
import type { ViewProps } from "./props.ts";
import type { Gathered } from "./state.ts";

const VERDICTS = { live: "live", start: "at next start", refused: "refused" } as const;
const OUTCOMES = { sending: "sending…", done: "done", failed: "failed" } as const;

/** What would become of it, the other changes included. */
function verdictOn({ verdict, together }: Gathered): Gathered["verdict"] {
  return verdict?.kind === "refused" ? verdict : (together ?? verdict);
}

function badgeOf(gathered: Gathered): readonly [string, string] {
  const { outcome } = gathered;
  const verdict = verdictOn(gathered);
  if (outcome !== undefined) return [outcome.kind, OUTCOMES[outcome.kind]];
  if (verdict === undefined) return ["asking", "asking…"];
  return [verdict.kind, VERDICTS[verdict.kind]];
}

function Same({
  gathered,
  actions,
}: {
  readonly gathered: Gathered;
  readonly actions: Actions;
}): JSX.Element {
  const { change } = gathered;
  const machine = actions.machineOf(change);
  return (
    <details class="same">
      <summary>Do the same by hand</summary>
      <h3>Command</h3>
      <pre tabIndex={0}>{lines(commandOf(change, machine))}</pre>
      <h3>YAML</h3>
      <pre tabIndex={0}>{lines(yamlOf(change, machine))}</pre>
    </details>
  );
}

function ChangeRow({
  gathered,
  actions,
}: {
  readonly gathered: Gathered;
  readonly actions: Actions;
}): JSX.Element {
  const { change, outcome } = gathered;
  const [kind, word] = badgeOf(gathered);
  const text = outcome?.text ?? verdictOn(gathered)?.text ?? "";
  const sentence = sentenceOf(change);
  return (
    <li class={`change change-${kind}`}>
      <span class={`badge badge-${kind}`}>{word}</span>
      <div class="change-words">
        <bdi class="change-title">{lines(sentence)}</bdi>
        {text === "" ? null : <bdi class="change-text">{text}</bdi>}
        <Same gathered={gathered} actions={actions} />
      </div>
      <button
        type="button"
        class="quiet"
        aria-label={`Drop: ${short(sentence)}`}
        onClick={() => {
          actions.drop(change);
        }}
      >
        ✕
      </button>
    </li>
  );
}

function countWords(count: number): string {
  return count === 1 ? "1 change gathered" : `${String(count)} changes gathered`;
}

/** The bar at the bottom; nothing where there is nothing to say. */
export function Changes({ state, actions }: ViewProps): JSX.Element | null {
  const { gathered } = state;
  if (gathered.length === 0) return null;
  const waiting = gathered.filter(({ outcome }) => outcome?.kind !== "done");
  const isBusy = gathered.some(({ outcome }) => outcome?.kind === "sending");
  const isAsking = waiting.some(({ verdict }) => verdict === undefined);
  const isAllDone = waiting.length === 0;
  return (
    <section class="changes" aria-label="Changes">
      <div class="changes-head">
        <h2>{isAllDone ? "All changes are sent" : countWords(waiting.length)}</h2>
        <span class="hint">
          {isAllDone ? "The rack shows how they go on." : "Nothing happens before Apply."}
        </span>
        <span class="spring" />
        <button
          type="button"
          class="quiet"
          disabled={isBusy}
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
            disabled={isBusy || isAsking}
            onClick={() => {
              void actions.apply();
            }}
          >
            Apply
          </button>
        )}
      </div>
      <ul class="change-list">
        {gathered.map((each) => (
          <ChangeRow key={changeId(each.change)} gathered={each} actions={actions} />
        ))}
      </ul>
    </section>
  );
}
