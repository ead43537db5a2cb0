// SPDX-License-Identifier: Apache-2.0
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import type { OpenedStream, StatusListener } from "./streams.ts";

const SCROLLBACK = 5000;

/** Sets the page's nonce on style elements that xterm.js creates. The Content-Security-Policy blocks style elements without a nonce. */
function allowTerminalStyles(): void {
  const nonce = document.querySelector<HTMLMetaElement>("meta[name=panel-nonce]")?.content ?? "";
  const create = (tag: string, options?: ElementCreationOptions): HTMLElement =>
    // oxlint-disable-next-line typescript/no-deprecated -- only the overload for custom elements is deprecated
    Document.prototype.createElement.call(document, tag, options);
  const createElement = (tag: string, options?: ElementCreationOptions): HTMLElement => {
    const element = create(tag, options);
    if (tag === "style") element.nonce = nonce;
    return element;
  };
  Object.assign(document, { createElement });
}

allowTerminalStyles();

export function open(
  element: HTMLElement,
  socket: WebSocket,
  onStatus: StatusListener,
): OpenedStream {
  const terminal = new Terminal({ scrollback: SCROLLBACK, fontSize: 13, screenReaderMode: true });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(element);
  fit.fit();
  const resizeObserver = new ResizeObserver(() => {
    fit.fit();
  });
  resizeObserver.observe(element);
  const encoder = new TextEncoder();
  terminal.onData((text) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(encoder.encode(text));
  });
  socket.onopen = () => {
    onStatus("connected; Enter may be needed to see a prompt");
    terminal.focus();
  };
  socket.onmessage = ({ data }) => {
    if (data instanceof ArrayBuffer) terminal.write(new Uint8Array(data));
  };
  socket.onclose = ({ reason }) => {
    onStatus(reason === "" ? "the console has ended" : reason);
  };
  return {
    close: () => {
      resizeObserver.disconnect();
      socket.close();
      terminal.dispose();
    },
  };
}
