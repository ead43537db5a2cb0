// SPDX-License-Identifier: Apache-2.0
// What is selected, in words, with what can be done about it.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { lines, short } from "../../model/shown.ts";
import type { Unit } from "../../model/unit.ts";
import type { Actions } from "../actions.ts";
import type { ViewProps } from "../props.ts";
import { Action, Facts } from "./parts.tsx";
import { FreeDetails, NicDetails } from "./nic.tsx";
import { findUnit, isAllowed, type PanelState } from "../state.ts";

function PowerButtons({ unit, state, actions }: { readonly unit: Unit } & ViewProps): JSX.Element {
  const power = (action: "start" | "stop" | "restart", label: string): JSX.Element | null =>
    isAllowed(state, unit.namespace, action) && unit.kind === "virtualmachines" ? (
      <Action
        label={label}
        onAction={() => {
          void actions.gather({ kind: "power", unit, action });
        }}
      />
    ) : null;
  const stream = (what: "console" | "vnc", label: string): JSX.Element | null =>
    isAllowed(state, unit.namespace, what === "console" ? "console" : "screen") ? (
      <Action
        label={label}
        onAction={() => {
          actions.openStream(unit, what);
        }}
      />
    ) : null;
  return (
    <div class="buttons">
      {unit.isLive
        ? [stream("console", "Console"), stream("vnc", "Screen")]
        : power("start", "Start")}
      {unit.isLive ? [power("restart", "Restart"), power("stop", "Stop")] : null}
    </div>
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

function portsOf({ sockets }: Unit): string | undefined {
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
          ["PCIe ports", portsOf(unit)],
          ["Interfaces", String(unit.plugs.length)],
        ]}
      />
      <PowerButtons unit={unit} state={state} actions={actions} />
      <p class="hint">
        The same in a terminal:{" "}
        <code>{lines(`kubectl get vm ${short(unit.name)} -n ${unit.namespace}`)}</code>
      </p>
    </>
  );
}

function titleOf(state: PanelState): string {
  const { selection } = state;
  return short(selection?.iface ?? (selection?.isFree === true ? "Free socket" : ""));
}

function Body({ unit, state, actions }: { readonly unit: Unit } & ViewProps): JSX.Element {
  const { iface, isFree } = state.selection ?? {};
  if (iface !== undefined) return <NicDetails {...{ unit, iface, state, actions }} />;
  if (isFree === true) return <FreeDetails {...{ unit, state, actions }} />;
  return <UnitDetails {...{ unit, state, actions }} />;
}

function Closer({ actions }: { readonly actions: Actions }): JSX.Element {
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

/** Whoever chooses something by keyboard goes on there, and comes back when it is closed. */
function useFocus(selection: PanelState["selection"]): {
  readonly current: HTMLHeadingElement | null;
} {
  const heading = useRef<HTMLHeadingElement>(null);
  const cameFrom = useRef<Element | null>(null);
  const { unit, iface, isFree } = selection ?? {};
  useEffect(() => {
    const { activeElement } = document;
    if (activeElement?.closest(".aside") === null) cameFrom.current = activeElement;
    heading.current?.focus({ preventScroll: true });
  }, [unit, iface, isFree]);
  useEffect(
    () => () => {
      if (cameFrom.current instanceof HTMLElement) cameFrom.current.focus({ preventScroll: true });
    },
    [],
  );
  return heading;
}

/** The drawer at the side. */
export function Inspector({ state, actions }: ViewProps): JSX.Element {
  const heading = useFocus(state.selection);
  const unit = findUnit(state, state.selection?.unit);
  const inner = titleOf(state);
  return (
    <aside class="aside" aria-label="Details">
      <div class="aside-head">
        <h2 ref={heading} tabIndex={-1}>
          <bdi>{short(unit?.name ?? "gone")}</bdi>
          {inner === "" ? null : (
            <>
              <span class="sep"> / </span>
              <bdi>{inner}</bdi>
            </>
          )}
        </h2>
        <Closer actions={actions} />
      </div>
      {unit === undefined ? (
        <p class="hint">This VM is not there any more.</p>
      ) : (
        <Body {...{ unit, state, actions }} />
      )}
    </aside>
  );
}
