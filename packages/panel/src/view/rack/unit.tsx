// SPDX-License-Identifier: Apache-2.0
// A VM as a unit of the rack, with its name, sockets and plugs.
import type { JSX } from "preact";
import type { Change } from "../../model/changes.ts";
import type { Jack } from "../../model/jacks.ts";
import { SIZE, socketPosition, type Place } from "../../model/layout.ts";
import type { Plug } from "../../model/nic/plug.ts";
import { toShortText } from "../../model/shown.ts";
import type { Unit } from "../../model/unit.ts";
import { Socket } from "./glyphs.tsx";
import { isSent, type PendingChange, type Selection } from "../state.ts";

export interface UnitProps {
  readonly unit: Unit;
  readonly place: Place;
  readonly jacks: ReadonlyMap<string, Jack>;
  readonly selection: Selection | undefined;
  readonly pendingChanges: readonly PendingChange[];
  /** Position in the filtered list, counted from 1. */
  readonly position: number;
  readonly count: number;
  readonly onSelect: (selection: Selection) => void;
  readonly onGrab: (selection: Selection, event: PointerEvent) => void;
}

export function networkLabel(key: string): string {
  return toShortText(key === "pod" ? "pod network" : (key.split("/")[1] ?? key));
}

export interface DrawnPlug {
  readonly plug: Plug;
  readonly mark?: "new" | "moved" | "pulled" | "switched";
}

const MARKS = { plug: "new", move: "moved", pull: "pulled", link: "switched" } as const;

const NEW_PLUG = {
  tone: "off",
  state: "not applied",
  addresses: [],
  binding: "bridge",
  model: "virtio",
  isDown: false,
  isFixed: false,
} as const;

function listPending(pendingChanges: readonly PendingChange[], key: string): readonly Change[] {
  return pendingChanges.flatMap((each) => {
    const { change } = each;
    return !isSent(each) && change.kind !== "create" && change.unit.key === key ? [change] : [];
  });
}

export function listDrawnPlugs(
  unit: Unit,
  pendingChanges: readonly PendingChange[],
): readonly DrawnPlug[] {
  const changes = listPending(pendingChanges, unit.key);
  const known = unit.plugs.map((plug): DrawnPlug => {
    const own = changes.filter((each) => "iface" in each && each.iface === plug.name);
    const change = own.find(({ kind }) => kind !== "link") ?? own[0];
    if (change === undefined || change.kind === "power" || change.kind === "create")
      return { plug };
    const network = change.kind === "move" ? change.network : plug.network;
    return { plug: { ...plug, network }, mark: MARKS[change.kind] };
  });
  const added = changes.flatMap((change): readonly DrawnPlug[] => {
    if (change.kind !== "plug" || unit.plugs.some(({ name }) => name === change.iface)) return [];
    return [{ plug: { ...NEW_PLUG, name: change.iface, network: change.network }, mark: "new" }];
  });
  return [...known, ...added];
}

type PlaceStyle = Readonly<Record<"left" | "top", string>>;

function socketStyle(place: Place, index: number): PlaceStyle {
  const { x, y } = socketPosition(place, index);
  return { left: `${String(x)}px`, top: `${String(y)}px` };
}

function ScreenReaderText({ children }: { readonly children: string }): JSX.Element {
  return <span class="unseen">{children}</span>;
}

interface PlugProps {
  readonly drawn: DrawnPlug;
  readonly style: PlaceStyle;
  readonly color: number;
  readonly isSelected: boolean;
  readonly onSelect: () => void;
  readonly onGrab: (event: PointerEvent) => void;
}

function PlugTile(props: PlugProps): JSX.Element {
  const { drawn, style, color, isSelected, onSelect, onGrab } = props;
  const { plug, mark } = drawn;
  const classes = ["plug", `tone-${plug.tone}`, `cable-${String(color)}`, mark && `mark-${mark}`];
  return (
    <button
      type="button"
      class={classes.filter(Boolean).join(" ")}
      style={style}
      aria-pressed={isSelected}
      onClick={onSelect}
      onPointerDown={plug.isFixed ? undefined : onGrab}
    >
      <span class="plug-top">
        <Socket isUsed />
        <ScreenReaderText>interface</ScreenReaderText>
        <bdi class="plug-name">{toShortText(plug.name)}</bdi>
        {mark === undefined ? null : <span class="plug-mark">{mark}</span>}
      </span>
      <span class="plug-state">{plug.state}</span>
      <ScreenReaderText>on</ScreenReaderText>
      <bdi class="plug-network">{networkLabel(plug.network)}</bdi>
      <bdi class="plug-address">{plug.addresses[0]}</bdi>
      <bdi class="plug-mac">{plug.mac}</bdi>
      <span class="boot" />
    </button>
  );
}

function describeFree({ sockets, isLive }: Unit): string {
  if (sockets === undefined) return isLive ? "ports not known yet" : "at next start";
  return sockets.free === 0
    ? "all ports are used"
    : `${String(sockets.free)} of ${String(sockets.total)} ports free`;
}

function FreeSocket({
  unit,
  style,
  isSelected,
  onSelect,
  onGrab,
}: Omit<PlugProps, "drawn" | "color"> & { readonly unit: Unit }): JSX.Element {
  const isFull = unit.sockets?.free === 0;
  return (
    <button
      type="button"
      class={`free-socket ${isFull ? "full" : ""}`}
      style={style}
      aria-pressed={isSelected}
      onClick={onSelect}
      onPointerDown={isFull ? undefined : onGrab}
    >
      <Socket isUsed={false} />
      <ScreenReaderText>{toShortText(unit.name)}</ScreenReaderText>
      <span class="free-title">{isFull ? "Full" : "Free socket"}</span>
      <span class="free-count">{describeFree(unit)}</span>
    </button>
  );
}

/** Maximum number of cells in the meter of PCIe ports. If there are more ports, several ports share a cell. */
const METER_CELLS = 32;

function Ports({ unit }: { readonly unit: Unit }): JSX.Element | null {
  const { sockets } = unit;
  if (sockets === undefined || sockets.total === 0) return null;
  const count = Math.min(METER_CELLS, sockets.total);
  const used = Math.round(((sockets.total - sockets.free) * count) / sockets.total);
  return (
    <span class={`ports ${sockets.free === 0 ? "ports-full" : ""}`} title={describeFree(unit)}>
      {Array.from({ length: count }, (_, index) => (
        <i key={index} class={index < used ? "on" : ""} />
      ))}
      <span class="ports-words">
        {sockets.total - sockets.free} of {sockets.total} ports used
      </span>
    </span>
  );
}

function Head({
  unit,
  onSelect,
}: {
  readonly unit: Unit;
  readonly onSelect: () => void;
}): JSX.Element {
  const facts = [unit.namespace, unit.node, unit.system, unit.memory].filter(
    (fact) => fact !== undefined,
  );
  return (
    <div class="unit-head">
      <button type="button" class="unit-name" onClick={onSelect}>
        <span class={`led led-${unit.tone}`} aria-hidden="true" />
        <bdi>{toShortText(unit.name)}</bdi>
      </button>
      <span class={`unit-state state-${unit.tone}`}>{unit.state}</span>
      <bdi class="unit-facts">{facts.join(" · ")}</bdi>
      {unit.notices.map(({ tone, title }) => (
        <span key={title} class={`notice notice-${tone}`}>
          {title}
        </span>
      ))}
      <Ports unit={unit} />
    </div>
  );
}

type PlugsProps = Pick<UnitProps, "place" | "jacks" | "selection" | "onSelect" | "onGrab"> & {
  readonly unitKey: string;
  readonly drawn: readonly DrawnPlug[];
};

function Plugs({
  unitKey,
  place,
  drawn,
  jacks,
  selection,
  onSelect,
  onGrab,
}: PlugsProps): JSX.Element {
  const isHere = selection?.unit === unitKey;
  return (
    <>
      {drawn.map((each, index) => {
        const chosen = { unit: unitKey, iface: each.plug.name };
        return (
          <PlugTile
            key={each.plug.name}
            drawn={each}
            style={socketStyle(place, index)}
            color={jacks.get(each.plug.network)?.color ?? 0}
            isSelected={isHere && selection.iface === each.plug.name}
            onSelect={() => {
              onSelect(chosen);
            }}
            onGrab={(event) => {
              onGrab(chosen, event);
            }}
          />
        );
      })}
    </>
  );
}

export function UnitView(props: UnitProps): JSX.Element {
  const { unit, place, selection, pendingChanges, onSelect, onGrab } = props;
  const drawn = listDrawnPlugs(unit, pendingChanges);
  const isHere = selection?.unit === unit.key;
  const style = { top: `${String(place.top)}px`, height: `${String(place.height)}px` };
  const free = { unit: unit.key, isFree: true };
  return (
    <article
      class={`unit unit-${unit.tone} ${isHere ? "selected" : ""}`}
      style={style}
      aria-label={`${toShortText(unit.name)} in ${toShortText(unit.namespace)}, ${unit.state}`}
      aria-posinset={props.position}
      aria-setsize={props.count}
    >
      <Head
        unit={unit}
        onSelect={() => {
          onSelect({ unit: unit.key });
        }}
      />
      <Plugs {...props} unitKey={unit.key} drawn={drawn} />
      <FreeSocket
        unit={unit}
        style={socketStyle(place, drawn.length)}
        isSelected={isHere && selection.isFree === true}
        onSelect={() => {
          onSelect(free);
        }}
        onGrab={(event) => {
          onGrab(free, event);
        }}
      />
      <span class="tray" style={{ height: `${String(SIZE.tray)}px` }} />
    </article>
  );
}
