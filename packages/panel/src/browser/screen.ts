// SPDX-License-Identifier: Apache-2.0
import RFB from "@novnc/novnc";
import type { OpenedStream, StatusListener } from "./streams.ts";

export function open(
  element: HTMLElement,
  socket: WebSocket,
  onStatus: StatusListener,
): OpenedStream {
  const screen = new RFB(element, socket);
  screen.scaleViewport = true;
  screen.background = "#000";
  screen.addEventListener("connect", () => {
    onStatus("connected");
    screen.focus();
  });
  screen.addEventListener("disconnect", () => {
    onStatus("the screen has ended");
  });
  return {
    close: () => {
      screen.disconnect();
    },
  };
}
