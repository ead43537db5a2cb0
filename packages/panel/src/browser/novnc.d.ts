// SPDX-License-Identifier: Apache-2.0
// Types of the part of noVNC that the panel uses. Source: API documentation of noVNC.
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
