// SPDX-License-Identifier: Apache-2.0
// Events of a VM, while its details are looked at.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { readEvents } from "../../browser/ask.ts";
import type { Session } from "../../browser/session.ts";
import type { EventRow } from "../../model/events.ts";
import type { Unit } from "../../model/unit.ts";
import { isAllowed, type PanelState } from "../state.ts";

interface EventsProps {
  readonly unit: Unit;
  readonly state: PanelState;
  readonly session: Session;
}

/** They are read when the VM is selected, and again when it has changed. */
function useEvents({ unit, state, session }: EventsProps): readonly EventRow[] {
  const [rows, setRows] = useState<readonly EventRow[]>([]);
  const mayRead = isAllowed(state, unit.namespace, "events");
  useEffect(() => {
    let isWanted = mayRead;
    if (mayRead) {
      void readEvents(session, unit).then((read) => {
        if (isWanted) setRows(read);
      });
    }
    return () => {
      isWanted = false;
    };
  }, [session, unit, mayRead]);
  return rows;
}

/** The list; nothing where there are none. */
export function Events(props: EventsProps): JSX.Element | null {
  const rows = useEvents(props);
  if (rows.length === 0) return null;
  return (
    <section aria-label="Events">
      <h3>Events</h3>
      <ul class="events">
        {rows.map(({ at, isWarning, reason, message, count }) => (
          <li key={`${at} ${reason} ${message}`} class={isWarning ? "event-warning" : ""}>
            <span class="hint">
              {at}
              {count > 1 ? `, ${String(count)} times` : ""}
            </span>{" "}
            <b>
              <bdi>{reason}</bdi>
            </b>{" "}
            <bdi>{message}</bdi>
          </li>
        ))}
      </ul>
    </section>
  );
}
