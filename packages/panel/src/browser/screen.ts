// SPDX-License-Identifier: Apache-2.0
// The screen of a guest, with its keyboard and mouse, in an element.
import RFB from "@novnc/novnc";
import type { Opened, Tell } from "./streams.ts";

/** Shows it, as large as the element lets it be. */
export function open(element: HTMLElement, socket: WebSocket, tell: Tell): Opened {
  const screen = new RFB(element, socket);
  screen.scaleViewport = true;
  screen.background = "#000";
  screen.addEventListener("connect", () => {
    tell("connected");
    screen.focus();
  });
  screen.addEventListener("disconnect", () => {
    tell("the screen has ended");
  });
  return {
    close: () => {
      screen.disconnect();
    },
  };
}
