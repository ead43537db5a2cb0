// SPDX-License-Identifier: Apache-2.0
// The rack: units, networks and the cables between them. Only visible units are drawn.
import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { sleep } from "../../browser/timing.ts";
import {
  type Layout,
  computeLayout,
  type Place,
  type Point,
  visibleRange,
} from "../../model/layout.ts";
import { isListed } from "../../model/objects.ts";
import type { Unit } from "../../model/unit.ts";
import type { ViewProps } from "../actions.ts";
import type { PanelState, Selection } from "../state.ts";
import { type CabledUnit, Cables, type CableSpace, type LooseCable } from "./cables.tsx";
import { JACK, Jacks } from "./jacks.tsx";
import { listDrawnPlugs, type UnitProps, UnitView } from "./unit.tsx";

interface DraggedCable extends LooseCable {
  readonly selection: Selection;
  readonly target: string | undefined;
}

/** Minimum distance of a drag, in pixels. A shorter drag is a click. */
const DRAG_DISTANCE_MIN = 6;
/** Time that a finger must rest before it grabs a cable, in milliseconds. A finger that moves earlier scrolls the rack. */
const TOUCH_HOLD_MS = 350;

function jackUnder(event: PointerEvent): string | undefined {
  const element = document.elementFromPoint(event.clientX, event.clientY);
  return element?.closest<HTMLElement>("[data-jack]")?.dataset["jack"];
}

function pointIn(area: HTMLElement, { clientX, clientY }: PointerEvent): Point {
  const { left, top } = area.getBoundingClientRect();
  return { x: clientX - left, y: clientY - top };
}

/** Calls `onHeld` after TOUCH_HOLD_MS, then blocks scrolling until `signal` aborts. The returned function reports whether `onHeld` ran. */
function trackHold(signal: AbortSignal, onHeld: () => void): () => boolean {
  let isHeld = false;
  const preventDefaultIfHeld = (event: Event): void => {
    if (isHeld) event.preventDefault();
  };
  window.addEventListener("touchmove", preventDefaultIfHeld, { signal, passive: false });
  // Without this listener, a long press would open the context menu.
  window.addEventListener("contextmenu", preventDefaultIfHeld, { signal });
  void sleep(TOUCH_HOLD_MS).then(() => {
    if (signal.aborted) return;
    isHeld = true;
    onHeld();
  });
  return () => isHeld;
}

/** Returns the dragged cable and a function that starts dragging. Coordinates are relative to `area`. */
function useCableDrag(
  area: () => HTMLElement | null,
  connect: (selection: Selection, network: string) => void,
): readonly [DraggedCable | undefined, (selection: Selection, event: PointerEvent) => void] {
  const [draggedCable, setGrabbed] = useState<DraggedCable>();
  const begin = (selection: Selection, event: PointerEvent): void => {
    const element = area();
    if (element === null || event.button !== 0) return;
    const from = pointIn(element, event);
    const ended = new AbortController();
    const { signal } = ended;
    const show = (moved: PointerEvent): void => {
      setGrabbed({ selection, from, to: pointIn(element, moved), target: jackUnder(moved) });
    };
    const isHeld =
      event.pointerType === "touch"
        ? trackHold(signal, () => {
            show(event);
          })
        : () => true;
    const end = (): void => {
      ended.abort();
      setGrabbed(undefined);
    };
    const onMove = (moved: PointerEvent): void => {
      const to = pointIn(element, moved);
      if (Math.hypot(to.x - from.x, to.y - from.y) < DRAG_DISTANCE_MIN) return;
      if (!isHeld()) {
        end();
        return;
      }
      moved.preventDefault();
      show(moved);
    };
    const onEnd = (last: PointerEvent): void => {
      const target = isHeld() ? jackUnder(last) : undefined;
      end();
      if (target !== undefined) connect(selection, target);
    };
    window.addEventListener("pointermove", onMove, { signal });
    window.addEventListener("pointerup", onEnd, { signal });
    window.addEventListener("pointercancel", end, { signal });
  };
  return [draggedCable, begin];
}

/** Minimum width of a rack with cables, in pixels. In a narrower rack, the networks form a row above the units. */
const NARROW_WIDTH = 760;
/** Width of the area for cables between rack and networks, in pixels. */
const CABLE_WIDTH = 120;

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

function useLayout({ shownUnits, pendingChanges }: PanelState, width: number): Layout {
  return useMemo(() => {
    const placed = shownUnits.map((unit) => ({
      key: unit.key,
      sockets: listDrawnPlugs(unit, pendingChanges).length + 1,
    }));
    return computeLayout(placed, width);
  }, [shownUnits, pendingChanges, width]);
}

function EmptyRack({ state }: { readonly state: PanelState }): JSX.Element {
  if (!isListed(state.objects)) return <p class="nothing">Reading the rack…</p>;
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

function isWaiting({ selection }: PanelState): boolean {
  return selection?.isFree === true;
}

function JackColumn({
  state,
  actions,
  draggedCable,
  onScroll,
}: ViewProps & {
  readonly draggedCable: DraggedCable | undefined;
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
      isWaiting={waits || draggedCable !== undefined}
      isDrawing={draggedCable !== undefined}
      target={draggedCable?.target}
      chosen={state.filter.network}
      onJack={onJack}
      onScroll={onScroll}
    />
  );
}

interface VisibleUnit {
  readonly unit: Unit;
  readonly place: Place;
  /** Position in the filtered list, counted from 1. */
  readonly position: number;
}

function listVisible(
  { shownUnits }: PanelState,
  layout: Layout,
  { scrolled, height }: { readonly scrolled: number; readonly height: number },
): readonly VisibleUnit[] {
  const { from, to } = visibleRange(layout, scrolled, height);
  return shownUnits.slice(from, to).flatMap((unit, index) => {
    const place = layout.places[from + index];
    return place === undefined ? [] : [{ unit, place, position: from + index + 1 }];
  });
}

function listCabled(
  { selection, pendingChanges }: PanelState,
  units: readonly VisibleUnit[],
): readonly CabledUnit[] {
  return units.map(({ unit, place }) => {
    const selectedIface = selection?.unit === unit.key ? selection.iface : undefined;
    return { place, drawn: listDrawnPlugs(unit, pendingChanges), selectedIface };
  });
}

interface FeedProps extends ViewProps {
  readonly units: readonly VisibleUnit[];
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
      aria-busy={!isListed(state.objects)}
      style={size}
    >
      {units.map(({ unit, place, position }) => (
        <UnitView
          key={unit.key}
          {...{ unit, place, position, jacks, onGrab, pendingChanges: state.pendingChanges }}
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

export function Rack({ state, actions }: ViewProps): JSX.Element {
  const [ref, { width, height }] = useSize();
  const content = useRef<HTMLDivElement>(null);
  const [scrolled, setScrolled] = useState(0);
  const [jacksScrolled, setJacksScrolled] = useState(0);
  const isNarrow = width < NARROW_WIDTH;
  const rackEdgeX = isNarrow ? width : width - JACK.width - CABLE_WIDTH;
  const layout = useLayout(state, rackEdgeX);
  const jacks = useJackMap(state.jacks);
  const [draggedCable, grab] = useCableDrag(
    () => content.current,
    (selection, network) => {
      actions.connect(selection, network);
    },
  );
  const units = listVisible(state, layout, { scrolled, height });
  const jackX = width - JACK.width + JACK.hole.x;
  const space = { jacks, scrolled, jacksScrolled, height, rackEdgeX, jackX };
  const total = Math.max(layout.height, height - 4);
  const size = { width: pixels(rackEdgeX), height: pixels(layout.height) };
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
        {isNarrow && draggedCable === undefined ? null : (
          <Cables
            units={isNarrow ? [] : listCabled(state, units)}
            {...{ space, total, loose: draggedCable }}
          />
        )}
        <Feed {...{ state, actions, units, size }} onGrab={grab} />
        {state.shownUnits.length === 0 ? <EmptyRack state={state} /> : null}
        <div class="jack-column">
          <JackColumn {...{ state, actions, draggedCable }} onScroll={setJacksScrolled} />
        </div>
      </div>
    </div>
  );
}
