// SPDX-License-Identifier: Apache-2.0
import type { JSX } from "preact";

interface ActionProps {
  readonly label: string;
  readonly onAction: () => void;
  readonly isDanger?: boolean;
}

export function Action({ label, onAction, isDanger = false }: ActionProps): JSX.Element {
  return (
    <button type="button" class={isDanger ? "danger" : ""} onClick={onAction}>
      {label}
    </button>
  );
}

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
