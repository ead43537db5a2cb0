// SPDX-License-Identifier: Apache-2.0
// A cable that is drawn with the pointer, from a socket or a plug to a jack.
import { useState } from "preact/hooks";
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

function jackUnder(event: PointerEvent): string | undefined {
  const element = document.elementFromPoint(event.clientX, event.clientY);
  return element?.closest<HTMLElement>("[data-jack]")?.dataset["jack"];
}

function pointIn(area: HTMLElement, { clientX, clientY }: PointerEvent): Point {
  const { left, top } = area.getBoundingClientRect();
  return { x: clientX - left, y: clientY - top };
}

/** How to begin, and what is being drawn; `area` is what points are counted from. */
export function useGrab(
  area: () => HTMLElement | null,
  connect: (selection: Selection, network: string) => void,
): readonly [Grabbed | undefined, (selection: Selection, event: PointerEvent) => void] {
  const [grabbed, setGrabbed] = useState<Grabbed>();
  const begin = (selection: Selection, event: PointerEvent): void => {
    const element = area();
    if (element === null || event.button !== 0 || event.pointerType === "touch") return;
    const from = pointIn(element, event);
    const ended = new AbortController();
    const { signal } = ended;
    const onMove = (moved: PointerEvent): void => {
      const to = pointIn(element, moved);
      if (Math.hypot(to.x - from.x, to.y - from.y) < LEAST) return;
      moved.preventDefault();
      setGrabbed({ selection, from, to, target: jackUnder(moved) });
    };
    const onEnd = (last: PointerEvent): void => {
      ended.abort();
      setGrabbed(undefined);
      const target = jackUnder(last);
      if (target !== undefined) connect(selection, target);
    };
    window.addEventListener("pointermove", onMove, { signal });
    window.addEventListener("pointerup", onEnd, { signal });
    window.addEventListener(
      "pointercancel",
      () => {
        ended.abort();
        setGrabbed(undefined);
      },
      { signal },
    );
  };
  return [grabbed, begin];
}
