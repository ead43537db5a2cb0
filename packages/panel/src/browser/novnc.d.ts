// SPDX-License-Identifier: Apache-2.0
// The used part of noVNC, which has no types. Source: noVNC, its API
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
