// SPDX-License-Identifier: Apache-2.0
import type { JSX } from "preact";
import type { Jack } from "../../model/jacks.ts";
import { toShortText } from "../../model/shown.ts";

export const JACK = {
  height: 58,
  firstTop: 40,
  width: 230,
  hole: { x: 6, y: 11 },
} as const;

interface JacksProps {
  readonly jacks: readonly Jack[];
  /** Whether a jack can be chosen for the selected socket or the dragged cable. */
  readonly isWaiting: boolean;
  readonly isDrawing: boolean;
  readonly target: string | undefined;
  readonly chosen: string;
  readonly onJack: (key: string) => void;
  readonly onScroll: (top: number) => void;
}

function JackView({
  jack,
  props,
}: {
  readonly jack: Jack;
  readonly props: JacksProps;
}): JSX.Element {
  const { key, name, namespace, type, plugs, problems, color } = jack;
  const { isWaiting, target, chosen, onJack } = props;
  const isClosed = isWaiting && key === "pod";
  const classes = [
    "jack",
    `cable-${String(color)}`,
    target === key && "target",
    isWaiting && !isClosed && "open",
  ];
  const [problem] = problems;
  return (
    <li>
      <button
        type="button"
        class={classes.filter(Boolean).join(" ")}
        data-jack={key}
        aria-pressed={chosen === key}
        title={problem}
        disabled={isClosed}
        onClick={() => {
          onJack(key);
        }}
      >
        <span class="jack-hole" aria-hidden="true" />
        <span class="unseen">{isWaiting ? "connect to" : "show only"}</span>
        <span class="jack-words">
          <bdi class="jack-name">{toShortText(name)}</bdi>
          <bdi class="jack-kind">{[namespace, type].filter(Boolean).join(" · ")}</bdi>
        </span>
        <span class="unseen">interfaces:</span>
        <span class="jack-count">{plugs}</span>
        {problem === undefined ? null : (
          <span class="notice notice-failing">
            <span class="unseen">problem</span>!
          </span>
        )}
      </button>
    </li>
  );
}

export function Jacks(props: JacksProps): JSX.Element {
  return (
    <section class={props.isDrawing ? "jacks drawing" : "jacks"} aria-label="Networks">
      <h2>{props.isWaiting ? "Connect to…" : "Networks"}</h2>
      <ul
        // Browsers make a scrollable list a tab stop, but the buttons in this list are tab stops already.
        tabIndex={-1}
        onScroll={(event) => {
          props.onScroll(event.currentTarget.scrollTop);
        }}
      >
        {props.jacks.map((jack) => (
          <JackView key={jack.key} jack={jack} props={props} />
        ))}
      </ul>
    </section>
  );
}
