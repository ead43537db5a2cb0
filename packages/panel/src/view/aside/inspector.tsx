// SPDX-License-Identifier: Apache-2.0
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { readEvents } from "../../browser/request.ts";
import type { Session } from "../../browser/session.ts";
import type { PowerAction } from "../../model/changes.ts";
import type { EventRow } from "../../model/events.ts";
import { escapeLines, toShortText } from "../../model/shown.ts";
import type { Unit } from "../../model/unit.ts";
import type { Actions, ViewProps } from "../actions.ts";
import { findUnit, isAllowed, type PanelState } from "../state.ts";
import { FreeDetails, NicDetails } from "./nic.tsx";
import { Action, Facts } from "./parts.tsx";

interface EventsProps {
  readonly unit: Unit;
  readonly state: PanelState;
  readonly session: Session;
}

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

function Events(props: EventsProps): JSX.Element | null {
  const rows = useEvents(props);
  if (rows.length === 0) return null;
  return (
    <section aria-label="Events">
      <h3>Events</h3>
      <ul class="events">
        {rows.map(({ lastTime, isWarning, reason, message, count }) => (
          <li key={`${lastTime} ${reason} ${message}`} class={isWarning ? "event-warning" : ""}>
            <span class="hint">
              {lastTime}
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

function listPowerActions({
  kind,
  isLive,
  isPaused,
}: Unit): readonly (readonly [PowerAction, string])[] {
  const isVm = kind === "virtualmachines";
  const guestActions = [
    ...(isPaused
      ? [["unpause", "Resume"] as const]
      : [["pause", "Pause"] as const, ["softreboot", "Soft reboot"] as const]),
    ["reset", "Reset"] as const,
  ];
  const runningVmActions = [
    ["restart", "Restart"] as const,
    ["stop", "Stop"] as const,
    ["migrate", "Migrate"] as const,
  ];
  const commonActions = [["delete", "Delete"] as const];
  if (!isLive) return [...(isVm ? [["start", "Start"] as const] : []), ...commonActions];
  return [...(isVm ? runningVmActions : []), ...guestActions, ...commonActions];
}

function PowerButtons({ unit, state, actions }: { readonly unit: Unit } & ViewProps): JSX.Element {
  const stream = (streamKind: "console" | "vnc", label: string): JSX.Element | null =>
    isAllowed(state, unit.namespace, streamKind === "console" ? "console" : "screen") ? (
      <Action
        label={label}
        onAction={() => {
          actions.openStream(unit, streamKind);
        }}
      />
    ) : null;
  const isVm = unit.kind === "virtualmachines";
  const allowed = listPowerActions(unit).filter(([action]) => {
    const right = action === "delete" && !isVm ? "deleteVmi" : action;
    return isAllowed(state, unit.namespace, right);
  });
  return (
    <div class="buttons">
      {unit.isLive ? [stream("console", "Console"), stream("vnc", "Screen")] : null}
      {allowed.map(([action, label]) => (
        <Action
          key={action}
          label={label}
          isDanger={action === "delete"}
          onAction={() => {
            void actions.addChange({ kind: "power", unit, action });
          }}
        />
      ))}
    </div>
  );
}

function Conditions({ unit: { conditions } }: { readonly unit: Unit }): JSX.Element | null {
  if (conditions.length === 0) return null;
  return (
    <section aria-label="Conditions">
      <h3>Conditions</h3>
      <Facts facts={conditions} />
    </section>
  );
}

function Notices({ unit }: { readonly unit: Unit }): JSX.Element {
  return (
    <>
      {unit.notices.map(({ tone, title, text }) => (
        <div key={title} class={`callout callout-${tone}`}>
          <b>{title}</b>
          <p>
            <bdi>{text}</bdi>
          </p>
        </div>
      ))}
    </>
  );
}

function printPorts({ sockets }: Unit): string | undefined {
  return (
    sockets &&
    `${String(sockets.total - sockets.free)} used, ${String(sockets.free)} free of ${String(sockets.total)}`
  );
}

function UnitDetails({ unit, state, actions }: { readonly unit: Unit } & ViewProps): JSX.Element {
  return (
    <>
      <Notices unit={unit} />
      <Facts
        facts={[
          ["Namespace", unit.namespace],
          ["State", unit.state],
          ["Node", unit.node],
          ["System", unit.system],
          ["Memory", unit.memory],
          ["PCIe ports", printPorts(unit)],
          ["Interfaces", String(unit.plugs.length)],
        ]}
      />
      <PowerButtons unit={unit} state={state} actions={actions} />
      <Conditions unit={unit} />
      <Events unit={unit} state={state} session={actions.session} />
      <p class="hint">
        The same in a terminal:{" "}
        <code>{escapeLines(`kubectl get vm ${toShortText(unit.name)} -n ${unit.namespace}`)}</code>
      </p>
    </>
  );
}

function findTitle(state: PanelState): string {
  const { selection } = state;
  return toShortText(selection?.iface ?? (selection?.isFree === true ? "Free socket" : ""));
}

function Body({ unit, state, actions }: { readonly unit: Unit } & ViewProps): JSX.Element {
  const { iface, isFree } = state.selection ?? {};
  if (iface !== undefined) return <NicDetails {...{ unit, iface, state, actions }} />;
  if (isFree === true) return <FreeDetails {...{ unit, state, actions }} />;
  return <UnitDetails {...{ unit, state, actions }} />;
}

function CloseButton({ actions }: { readonly actions: Actions }): JSX.Element {
  return (
    <button
      type="button"
      class="quiet close"
      aria-label="Close details"
      onClick={() => {
        actions.select(undefined);
      }}
    >
      ✕
    </button>
  );
}

/** Moves the keyboard focus into the details, and back to the previous element when the details are closed. */
function useFocus(selection: PanelState["selection"]): {
  readonly current: HTMLHeadingElement | null;
} {
  const heading = useRef<HTMLHeadingElement>(null);
  const previousFocus = useRef<Element | null>(null);
  const { unit, iface, isFree } = selection ?? {};
  useEffect(() => {
    const { activeElement } = document;
    if (activeElement?.closest(".aside") === null) previousFocus.current = activeElement;
    heading.current?.focus({ preventScroll: true });
  }, [unit, iface, isFree]);
  useEffect(
    () => () => {
      if (previousFocus.current instanceof HTMLElement)
        previousFocus.current.focus({ preventScroll: true });
    },
    [],
  );
  return heading;
}

export function Inspector({ state, actions }: ViewProps): JSX.Element {
  const heading = useFocus(state.selection);
  const unit = findUnit(state, state.selection?.unit);
  const inner = findTitle(state);
  return (
    <aside class="aside" aria-label="Details">
      <div class="aside-head">
        <h2 ref={heading} tabIndex={-1}>
          <bdi>{toShortText(unit?.name ?? "gone")}</bdi>
          {inner === "" ? null : (
            <>
              <span class="sep"> / </span>
              <bdi>{inner}</bdi>
            </>
          )}
        </h2>
        <CloseButton actions={actions} />
      </div>
      {unit === undefined ? (
        <p class="hint">This VM no longer exists.</p>
      ) : (
        <Body {...{ unit, state, actions }} />
      )}
    </aside>
  );
}
