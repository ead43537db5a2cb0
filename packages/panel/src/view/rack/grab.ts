// SPDX-License-Identifier: Apache-2.0
// A cable that is drawn with the pointer, from a socket or a plug to a jack.
import { useState } from "preact/hooks";
import { pause } from "../../browser/clock.ts";
import type { Point } from "../../model/layout.ts";
import type { Loose } from "./cables.tsx";
import type { Selection } from "../state.ts";

/** What is being drawn. */
export interface Grabbed extends Loose {
  readonly selection: Selection;
  /** The jack under the pointer. */
  readonly target: string | undefined;
}

/** Shorter is a click. */
const LEAST = 6;
/** A finger that rests for so long has taken the cable; one that moves sooner scrolls. Milliseconds. */
const HOLD_MS = 350;

function jackUnder(event: PointerEvent): string | undefined {
  const element = document.elementFromPoint(event.clientX, event.clientY);
  return element?.closest<HTMLElement>("[data-jack]")?.dataset["jack"];
}

function pointIn(area: HTMLElement, { clientX, clientY }: PointerEvent): Point {
  const { left, top } = area.getBoundingClientRect();
  return { x: clientX - left, y: clientY - top };
}

/** Whether a finger has rested long enough to have taken the cable; from then on nothing scrolls until the signal. */
function heldBy(signal: AbortSignal, onHeld: () => void): () => boolean {
  let isHeld = false;
  const keep = (event: Event): void => {
    if (isHeld) event.preventDefault();
  };
  window.addEventListener("touchmove", keep, { signal, passive: false });
  // A long press asks for no menu here.
  window.addEventListener("contextmenu", keep, { signal });
  void pause(HOLD_MS).then(() => {
    if (signal.aborted) return;
    isHeld = true;
    onHeld();
  });
  return () => isHeld;
}

/** How to begin, and what is being drawn; `area` is what points are counted from. */
export function useGrab(
  area: () => HTMLElement | null,
  connect: (selection: Selection, network: string) => void,
): readonly [Grabbed | undefined, (selection: Selection, event: PointerEvent) => void] {
  const [grabbed, setGrabbed] = useState<Grabbed>();
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
        ? heldBy(signal, () => {
            show(event);
          })
        : () => true;
    const end = (): void => {
      ended.abort();
      setGrabbed(undefined);
    };
    const onMove = (moved: PointerEvent): void => {
      const to = pointIn(element, moved);
      if (Math.hypot(to.x - from.x, to.y - from.y) < LEAST) return;
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
  return [grabbed, begin];
}
