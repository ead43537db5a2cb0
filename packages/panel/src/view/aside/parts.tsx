// SPDX-License-Identifier: Apache-2.0
// What details are made of: facts and buttons.
import type { JSX } from "preact";

interface ActionProps {
  readonly label: string;
  readonly onAction: () => void;
  readonly isDanger?: boolean;
}

/** A button of the inspector. */
export function Action({ label, onAction, isDanger = false }: ActionProps): JSX.Element {
  return (
    <button type="button" class={isDanger ? "danger" : ""} onClick={onAction}>
      {label}
    </button>
  );
}

/** Facts under one another; those that are not known are left out. */
export function Facts({
  facts,
}: {
  readonly facts: readonly (readonly [string, string | undefined])[];
}): JSX.Element {
  return (
    <dl class="facts">
      {facts.flatMap(([name, value]) =>
        value === undefined || value === ""
          ? []
          : [
              <div key={name}>
                <dt>{name}</dt>
                <dd>
                  <bdi>{value}</bdi>
                </dd>
              </div>,
            ],
      )}
    </dl>
  );
}
