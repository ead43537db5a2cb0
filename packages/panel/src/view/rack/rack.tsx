// SPDX-License-Identifier: Apache-2.0
// The rack: units under one another, networks beside them, cables between. Of many units only those that are seen are drawn.
import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { layoutOf, seen, type Layout, type Place } from "../../model/layout.ts";
import type { Unit } from "../../model/unit.ts";
import type { ViewProps } from "../props.ts";
import { Cables, type CabledUnit, type CableSpace } from "./cables.tsx";
import { useGrab, type Grabbed } from "./grab.ts";
import { JACK, Jacks } from "./jacks.tsx";
import type { PanelState } from "../state.ts";
import { drawnOf, UnitView, type UnitProps } from "./unit.tsx";

/** Below this width networks are a row above the rack, and plugs name theirs; pixels. */
const NARROW = 760;
/** Between rack and networks, where cables hang. */
const GUTTER = 120;

interface Size {
  readonly width: number;
  readonly height: number;
}

function useSize(): readonly [{ readonly current: HTMLDivElement | null }, Size] {
  const ref = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const element = ref.current;
    if (element === null) return;
    const measure = (): void => {
      setSize({ width: element.clientWidth, height: element.clientHeight });
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => {
      observer.disconnect();
    };
  }, []);
  return [ref, size];
}

function useLayout({ shownUnits, gathered }: PanelState, width: number): Layout {
  return useMemo(() => {
    const placed = shownUnits.map((unit) => ({
      key: unit.key,
      sockets: drawnOf(unit, gathered).length + 1,
    }));
    return layoutOf(placed, width);
  }, [shownUnits, gathered, width]);
}

function Nothing({ state }: { readonly state: PanelState }): JSX.Element {
  const isKnown = state.objects.listed.has("vms") && state.objects.listed.has("vmis");
  if (!isKnown) return <p class="nothing">Reading the rack…</p>;
  return state.units.length === 0 ? (
    <p class="nothing">
      No VM yet. Make one with <b>New VM</b>, or with <code>patchbay create vm</code>.
    </p>
  ) : (
    <p class="nothing">No VM fits the search and the filters.</p>
  );
}

function useJackMap(jacks: PanelState["jacks"]): CableSpace["jacks"] {
  return useMemo(() => new Map(jacks.map((jack, index) => [jack.key, { jack, index }])), [jacks]);
}

/** What was chosen last is what a click on a jack connects. */
function isWaiting({ selection }: PanelState): boolean {
  return selection?.isFree === true;
}

function JackColumn({
  state,
  actions,
  grabbed,
  onScroll,
}: ViewProps & {
  readonly grabbed: Grabbed | undefined;
  readonly onScroll: (top: number) => void;
}): JSX.Element {
  const waits = isWaiting(state);
  const onJack = (key: string): void => {
    if (waits && state.selection !== undefined)
      actions.connect({ unit: state.selection.unit }, key);
    else actions.filter({ network: state.filter.network === key ? "" : key });
  };
  return (
    <Jacks
      jacks={state.jacks}
      isWaiting={waits || grabbed !== undefined}
      isDrawing={grabbed !== undefined}
      target={grabbed?.target}
      chosen={state.filter.network}
      onJack={onJack}
      onScroll={onScroll}
    />
  );
}

/** A unit with its place, of those that are drawn. */
interface Visible {
  readonly unit: Unit;
  readonly place: Place;
  /** Of all that are looked for, from 1. */
  readonly position: number;
}

function visibleOf(
  { shownUnits }: PanelState,
  layout: Layout,
  { scrolled, height }: { readonly scrolled: number; readonly height: number },
): readonly Visible[] {
  const { from, to } = seen(layout, scrolled, height);
  return shownUnits.slice(from, to).flatMap((unit, index) => {
    const place = layout.places[from + index];
    return place === undefined ? [] : [{ unit, place, position: from + index + 1 }];
  });
}

function cabledOf(
  { selection, gathered }: PanelState,
  units: readonly Visible[],
): readonly CabledUnit[] {
  return units.map(({ unit, place }) => {
    const selectedIface = selection?.unit === unit.key ? selection.iface : undefined;
    return { place, drawn: drawnOf(unit, gathered), selectedIface };
  });
}

interface FeedProps extends ViewProps {
  readonly units: readonly Visible[];
  readonly size: Readonly<Record<"width" | "height", string>>;
  readonly onGrab: UnitProps["onGrab"];
}

function Feed({ state, actions, units, size, onGrab }: FeedProps): JSX.Element {
  const jacks = useMemo(() => new Map(state.jacks.map((jack) => [jack.key, jack])), [state.jacks]);
  return (
    <div
      class="units"
      role="feed"
      aria-label="Virtual machines"
      aria-busy={!state.objects.listed.has("vms")}
      style={size}
    >
      {units.map(({ unit, place, position }) => (
        <UnitView
          key={unit.key}
          {...{ unit, place, position, jacks, onGrab, gathered: state.gathered }}
          selection={state.selection}
          count={state.shownUnits.length}
          onSelect={(selection) => {
            actions.select(selection);
          }}
        />
      ))}
    </div>
  );
}

function pixels(count: number): string {
  return `${String(count)}px`;
}

/** The rack. */
export function Rack({ state, actions }: ViewProps): JSX.Element {
  const [ref, { width, height }] = useSize();
  const content = useRef<HTMLDivElement>(null);
  const [scrolled, setScrolled] = useState(0);
  const [jacksScrolled, setJacksScrolled] = useState(0);
  const isNarrow = width < NARROW;
  const edge = isNarrow ? width : width - JACK.width - GUTTER;
  const layout = useLayout(state, edge);
  const jacks = useJackMap(state.jacks);
  const [grabbed, grab] = useGrab(
    () => content.current,
    (selection, network) => {
      actions.connect(selection, network);
    },
  );
  const units = visibleOf(state, layout, { scrolled, height });
  const jackX = width - JACK.width + JACK.hole.x;
  const space = { jacks, scrolled, jacksScrolled, height, edge, jackX };
  const total = Math.max(layout.height, height - 4);
  const size = { width: pixels(edge), height: pixels(layout.height) };
  return (
    <div
      class={`rack-scroll ${isNarrow ? "narrow" : "wide"}`}
      ref={ref}
      tabIndex={0}
      role="group"
      aria-label="Rack"
      onScroll={(event) => {
        setScrolled(event.currentTarget.scrollTop);
      }}
    >
      <div class="rack-content" ref={content} style={{ minHeight: pixels(total) }}>
        {isNarrow && grabbed === undefined ? null : (
          <Cables
            units={isNarrow ? [] : cabledOf(state, units)}
            {...{ space, total, loose: grabbed }}
          />
        )}
        <Feed {...{ state, actions, units, size }} onGrab={grab} />
        {state.shownUnits.length === 0 ? <Nothing state={state} /> : null}
        <div class="jack-column">
          <JackColumn {...{ state, actions, grabbed }} onScroll={setJacksScrolled} />
        </div>
      </div>
    </div>
  );
}
