// SPDX-License-Identifier: Apache-2.0
// What of noVNC is used; it brings no types. Source: noVNC, its API
declare module "@novnc/novnc" {
  /** A screen in an element. */
  class RFB extends EventTarget {
    constructor(target: HTMLElement, socket: WebSocket);
    scaleViewport: boolean;
    background: string;
    focus(): void;
    disconnect(): void;
  }
  export { RFB as default };
}
