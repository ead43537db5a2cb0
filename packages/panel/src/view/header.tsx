// SPDX-License-Identifier: Apache-2.0
import type { JSX } from "preact";
import { listChoices, filterUnits, NO_FILTER } from "../model/filter.ts";
import type { ViewProps } from "./actions.ts";
import { Logo } from "./rack/glyphs.tsx";
import { isAllowed } from "./state.ts";

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly all: string;
  readonly choices: readonly (readonly [string, string])[];
  readonly onChoice: (value: string) => void;
}

function Choice({ label, value, all, choices, onChoice }: ChoiceProps): JSX.Element {
  return (
    <label class="choice">
      <span>{label}</span>
      <select
        value={value}
        onChange={(event) => {
          onChoice(event.currentTarget.value);
        }}
      >
        <option value="">{all}</option>
        {choices.map(([each, text]) => (
          <option key={each} value={each}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

function toChoices(values: readonly string[]): readonly (readonly [string, string])[] {
  return values.map((value) => [value, value]);
}

function Filters({ state, actions }: ViewProps): JSX.Element {
  const { namespaces, nodes, reasons } = listChoices(state.units);
  const { filter, jacks } = state;
  const networks = jacks.map(({ key, name }) => [key, key === "pod" ? name : key] as const);
  const problems = [["any", "any problem"] as const, ...toChoices(reasons)];
  return (
    <div class="filters" role="search" aria-label="Filter the rack">
      <label class="search">
        <span class="unseen">Search VMs, interfaces, addresses</span>
        <input
          type="search"
          placeholder="Search VMs, interfaces, addresses…"
          value={filter.text}
          onInput={(event) => {
            actions.filter({ text: event.currentTarget.value });
          }}
        />
      </label>
      <Choice
        {...{
          label: "Namespace",
          value: filter.namespace,
          all: "all",
          choices: toChoices(namespaces),
        }}
        onChoice={(namespace) => {
          actions.filter({ namespace });
        }}
      />
      <Choice
        {...{ label: "Node", value: filter.node, all: "all", choices: toChoices(nodes) }}
        onChoice={(node) => {
          actions.filter({ node });
        }}
      />
      <Choice
        {...{ label: "Network", value: filter.network, all: "all", choices: networks }}
        onChoice={(network) => {
          actions.filter({ network });
        }}
      />
      <Choice
        {...{ label: "Problem", value: filter.reason, all: "all", choices: problems }}
        onChoice={(reason) => {
          actions.filter({ reason });
        }}
      />
    </div>
  );
}

function AttentionButton({ state, actions }: ViewProps): JSX.Element | null {
  const count = filterUnits(state.units, { ...NO_FILTER, reason: "any" }).length;
  if (count === 0) return null;
  const isOn = state.filter.reason === "any";
  return (
    <button
      type="button"
      class="attention"
      aria-pressed={isOn}
      onClick={() => {
        actions.filter({ reason: isOn ? "" : "any" });
      }}
    >
      {count === 1 ? "1 VM needs attention" : `${String(count)} VMs need attention`}
    </button>
  );
}

export function Header({ state, actions }: ViewProps): JSX.Element {
  const { session, isLive, theme, objects } = state;
  const namespace = session?.namespace ?? "";
  return (
    <header class="header">
      <div class="brand">
        <Logo />
        <span class="brand-name">Patchbay</span>
        <span class={`live live-${isLive ? "on" : "off"}`}>
          {isLive ? "live" : "not connected"}
        </span>
        <span class="server" title={session?.server}>
          {objects.onlyIn === undefined ? "all namespaces" : `namespace ${objects.onlyIn}`}
        </span>
        <AttentionButton state={state} actions={actions} />
        <span class="spring" />
        <button
          type="button"
          class="quiet"
          aria-label={`Theme: ${theme}`}
          onClick={() => {
            actions.switchTheme();
          }}
        >
          <span aria-hidden="true">◐</span> {theme}
        </button>
        {isAllowed(state, namespace, "create") ? (
          <button
            type="button"
            class="main"
            onClick={() => {
              actions.setCreating(true);
            }}
          >
            New VM
          </button>
        ) : null}
      </div>
      <Filters state={state} actions={actions} />
    </header>
  );
}
