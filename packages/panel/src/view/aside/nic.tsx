// SPDX-License-Identifier: Apache-2.0
import type { JSX } from "preact";
import { findReasonOwner, nextStepFor } from "@patchbay/core/reasons";
import { parseMs, timeOfDay } from "../../browser/timing.ts";
import type { OperationRow } from "../../model/nic/history.ts";
import { PHASE_LABELS, type Plug } from "../../model/nic/plug.ts";
import { nicRight } from "../../model/rights.ts";
import { toShortText } from "../../model/shown.ts";
import { plugKey, type PlugStep } from "../../model/nic/steps.ts";
import type { Unit } from "../../model/unit.ts";
import type { Actions, ViewProps } from "../actions.ts";
import { Doctor, Traffic } from "./measurements.tsx";
import { Action, Facts } from "./parts.tsx";
import { isAllowed, type PanelState } from "../state.ts";
import { networkLabel } from "../rack/unit.tsx";

const PLUG_PHASES = ["Pending", "PodAttaching", "Wiring", "Attaching", "Ready"] as const;
const SWAP_PHASES = ["PodSwapping", "Switching", "Ready"] as const;
const UNPLUG_PHASES = ["Detaching", "Unwiring", "PodDetaching"] as const;
const PHASE_SEQUENCES: readonly (readonly (keyof typeof PHASE_LABELS)[])[] = [
  UNPLUG_PHASES,
  SWAP_PHASES,
  PLUG_PHASES,
];

function Progress({ plug }: { readonly plug: Plug }): JSX.Element | null {
  const { phase } = plug;
  if (phase === undefined) return null;
  const sequence =
    PHASE_SEQUENCES.find((each) => each.includes(phase) && phase !== "Ready") ?? PLUG_PHASES;
  const current = sequence.indexOf(phase);
  return (
    <ol class="way" aria-label="Progress">
      {sequence.map((each, index) => {
        const place =
          index < current ? "past" : index === current ? `here tone-${plug.tone}` : "ahead";
        return (
          <li key={each} class={place} aria-current={index === current ? "step" : undefined}>
            <span class="way-name">{each}</span>
            <span class="way-words">{PHASE_LABELS[each]}</span>
          </li>
        );
      })}
    </ol>
  );
}

function ObservedPhases({ steps }: { readonly steps: readonly PlugStep[] }): JSX.Element | null {
  if (steps.every(({ isOld }) => isOld === true)) return null;
  return (
    <table class="steps">
      <caption>Observed since this page was opened</caption>
      <tbody>
        {steps.map(({ phase, reason, atMs }, index) => {
          const previous = steps[index - 1];
          const duration =
            previous === undefined ? "" : `+${((atMs - previous.atMs) / 1000).toFixed(2)} s`;
          return (
            <tr key={atMs}>
              <td>{timeOfDay(atMs).slice(0, 8)}</td>
              <td>{reason === undefined ? phase : `${phase}: ${reason}`}</td>
              <td class="took">{duration}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Operations({ rows }: { readonly rows: readonly OperationRow[] }): JSX.Element | null {
  if (rows.length === 0) return null;
  return (
    <table class="steps done">
      <caption>Operations</caption>
      <tbody>
        {rows.map(({ startTime, what, duration, end, phases }) => (
          <tr key={`${startTime} ${what}`} title={phases}>
            <td>{startTime}</td>
            <td>
              <bdi>{what}</bdi>: {end}
            </td>
            <td class="took">{duration}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Problem({ plug }: { readonly plug: Plug }): JSX.Element | null {
  const { reason, message, tone, attempts } = plug;
  if (reason === undefined) return null;
  const next = nextStepFor(reason);
  const helper = findReasonOwner(reason);
  return (
    <div class={`callout callout-${tone}`}>
      <b>{reason}</b>
      {message === undefined ? null : (
        <p>
          <bdi>{message}</bdi>
        </p>
      )}
      {next === undefined ? null : <p>Next: {next}.</p>}
      {helper === undefined ? null : <p>Who can help: {helper}.</p>}
      {attempts === undefined ? null : <p>Tried {attempts} times; retrying.</p>}
    </div>
  );
}

function printSince({ since }: Plug): string | undefined {
  const ms = parseMs(since);
  return ms === undefined ? undefined : `${timeOfDay(ms).slice(0, 8)} UTC`;
}

function listFacts(plug: Plug): readonly (readonly [string, string | undefined])[] {
  return [
    ["Network", plug.network === "pod" ? "pod network" : toShortText(plug.network)],
    ["State", plug.state],
    ["Since", printSince(plug)],
    ["Addresses", plug.addresses.join(", ")],
    ["MAC", plug.mac],
    ["In the guest", plug.guestName],
    ["PCIe port", plug.pciAddress],
    ["NIC in the pod", plug.podNic],
    ["MTU", plug.mtu?.toString()],
    ["Binding", plug.binding],
    ["Model", plug.model],
  ];
}

interface PickProps {
  readonly state: PanelState;
  readonly label: string;
  readonly excluded?: string;
  readonly onPick: (network: string) => void;
}

/** Buttons to choose a network, for users who do not drag cables. */
function PickNetwork({ state, label, excluded, onPick }: PickProps): JSX.Element {
  const open = state.jacks.filter(({ key }) => key !== "pod" && key !== excluded);
  return (
    <fieldset class="pick">
      <legend>{label}</legend>
      {open.length === 0 ? <p class="hint">There is no other network here.</p> : null}
      {open.map(({ key, color }) => (
        <button
          type="button"
          key={key}
          class={`pick-network cable-${String(color)}`}
          onClick={() => {
            onPick(key);
          }}
        >
          <span class="jack-hole" aria-hidden="true" />
          <bdi>{toShortText(key)}</bdi>
        </button>
      ))}
    </fieldset>
  );
}

interface NicProps extends ViewProps {
  readonly unit: Unit;
  readonly iface: string;
}

function NicButtons({
  unit,
  plug,
  state,
  actions,
}: Omit<NicProps, "iface"> & { readonly plug: Plug }): JSX.Element {
  const iface = plug.name;
  const mayEdit = isAllowed(state, unit.namespace, nicRight("edit", unit.kind));
  const mayPull = isAllowed(state, unit.namespace, nicRight("pull", unit.kind));
  const to = plug.isDown ? "up" : "down";
  return (
    <>
      {mayEdit && !plug.isFixed ? (
        <PickNetwork
          state={state}
          label="Move the cable to"
          excluded={plug.network}
          onPick={(network) => {
            actions.connect({ unit: unit.key, iface }, network);
          }}
        />
      ) : null}
      <div class="buttons">
        {mayEdit ? (
          <Action
            label={`Link ${to}`}
            onAction={() => {
              void actions.addChange({ kind: "link", unit, iface, to });
            }}
          />
        ) : null}
        {mayPull && !plug.isFixed ? (
          <Action
            label="Pull the plug"
            isDanger
            onAction={() => {
              void actions.addChange({ kind: "pull", unit, iface });
            }}
          />
        ) : null}
      </div>
    </>
  );
}

export function NicDetails({ unit, iface, state, actions }: NicProps): JSX.Element {
  const plug = unit.plugs.find(({ name }) => name === iface);
  if (plug === undefined) {
    return <p class="hint">Not plugged yet: it is among the changes below, which Apply sends.</p>;
  }
  return (
    <>
      <Problem plug={plug} />
      <Progress plug={plug} />
      <Facts facts={listFacts(plug)} />
      {unit.isLive && isAllowed(state, unit.namespace, "traffic") ? (
        <Traffic session={actions.session} unit={unit} iface={iface} />
      ) : null}
      {unit.isLive && isAllowed(state, unit.namespace, "doctor") ? (
        <Doctor session={actions.session} unit={unit} iface={iface} />
      ) : null}
      <NicButtons {...{ unit, plug, state, actions }} />
      <Operations rows={unit.done.get(iface) ?? []} />
      <ObservedPhases steps={state.steps.get(plugKey(unit.key, iface)) ?? []} />
      <p class="hint">
        Details of every layer:{" "}
        <code>{`patchbay explain ${toShortText(unit.name)} ${toShortText(iface)} -n ${unit.namespace}`}</code>
      </p>
    </>
  );
}

export function FreeDetails({
  unit,
  state,
  actions,
}: {
  readonly unit: Unit;
  readonly state: PanelState;
  readonly actions: Actions;
}): JSX.Element {
  if (!isAllowed(state, unit.namespace, nicRight("plug", unit.kind))) {
    return <p class="hint">You may view this VM, but not plug interfaces into it.</p>;
  }
  if (unit.sockets?.free === 0) {
    return (
      <p class="hint">
        All {unit.sockets.total} PCIe ports are used. Pull a plug, or raise{" "}
        <code>spec.domain.devices.pcieRootPorts</code> and restart the VM.
      </p>
    );
  }
  return (
    <>
      <p class="hint">Draw a cable from the socket to a network, or choose one here.</p>
      <PickNetwork
        state={state}
        label={`Plug ${networkLabel(unit.key)} into`}
        onPick={(network) => {
          actions.connect({ unit: unit.key }, network);
        }}
      />
    </>
  );
}
