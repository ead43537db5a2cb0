// SPDX-License-Identifier: Apache-2.0
// Types of the used part of noVNC, which has none. Source: API documentation of noVNC.
declare module "@novnc/novnc" {
  class RFB extends EventTarget {
    constructor(target: HTMLElement, socket: WebSocket);
    scaleViewport: boolean;
    background: string;
    focus(): void;
    disconnect(): void;
  }
  export { RFB as default };
}
