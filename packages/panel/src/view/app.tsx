// SPDX-License-Identifier: Apache-2.0
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { AccessFailure, Session } from "../browser/session.ts";
import {
  type OpenedStream,
  openStream,
  type StreamTarget,
  type StatusListener,
} from "../browser/streams.ts";
import { toLongText, toShortText } from "../model/shown.ts";
import type { Actions, ViewProps } from "./actions.ts";
import { Inspector } from "./aside/inspector.tsx";
import { NewVmAside } from "./aside/new-vm.tsx";
import { Changes } from "./changes.tsx";
import { Header } from "./header.tsx";
import { Rack } from "./rack/rack.tsx";
import { type PanelStore, usePanel } from "./state.ts";

interface StreamScript {
  readonly open: (
    element: HTMLElement,
    socket: WebSocket,
    onStatus: StatusListener,
  ) => OpenedStream;
}

const SCRIPTS = { console: "/console.js", vnc: "/screen.js" } as const;
const TITLES = { console: "Console", vnc: "Screen" } as const;

interface StreamProps {
  readonly stream: StreamTarget;
  readonly session: Session;
  readonly actions: Actions;
}

/** Opens the stream while the window is shown. Returns the status text, and references for the window's elements. */
function useStream(stream: StreamTarget, session: Session) {
  const dialog = useRef<HTMLDialogElement>(null);
  const element = useRef<HTMLDivElement>(null);
  const [status, setStatus] = useState("connecting…");
  useEffect(() => {
    dialog.current?.showModal();
    let opened: OpenedStream | undefined;
    let isClosed = false;
    // The cast is safe, because console.ts and screen.ts export `open` with this type.
    void (import(SCRIPTS[stream.streamKind]) as Promise<StreamScript>).then(({ open }) => {
      if (isClosed || element.current === null) return;
      opened = open(element.current, openStream(session, stream), (text) => {
        setStatus(toLongText(text));
      });
    });
    return () => {
      isClosed = true;
      opened?.close();
    };
  }, [stream, session]);
  return { dialog, element, status };
}

/** Window of a console or screen. Opening the window disconnects another client of the same console or screen. */
function StreamWindow({ stream, session, actions }: StreamProps): JSX.Element {
  const { dialog, element, status } = useStream(stream, session);
  const title = `${TITLES[stream.streamKind]} of ${toShortText(stream.name)}`;
  const onClose = (): void => {
    actions.closeStream();
  };
  return (
    <dialog class="stream" ref={dialog} aria-label={title} onClose={onClose}>
      <div class="aside-head">
        <h2>
          <bdi>{title}</bdi>
        </h2>
        <span class="hint" role="status">
          {status}
        </span>
        <button type="button" class="quiet close" onClick={onClose}>
          Close
        </button>
      </div>
      <div class={`stream-body stream-${stream.streamKind}`} ref={element} />
    </dialog>
  );
}

const HEADINGS: Readonly<Record<AccessFailure, string>> = {
  used: "This link is no longer valid",
  unanswered: "The panel's server does not answer",
};

export function AccessDenied({ why }: { readonly why: AccessFailure }): JSX.Element {
  return (
    <main class="closed">
      <h1>{HEADINGS[why]}</h1>
      <p>
        A link of <code>patchbay ui</code> is for the first browser that opens it, until the command
        ends. Press Enter in the terminal where it runs to get a new link, and open that.
      </p>
    </main>
  );
}

function Aside({ state, actions }: ViewProps): JSX.Element | null {
  if (state.isCreating) return <NewVmAside state={state} actions={actions} />;
  return state.selection === undefined ? null : <Inspector state={state} actions={actions} />;
}

export function App({
  store,
  actions,
}: {
  readonly store: PanelStore;
  readonly actions: Actions;
}): JSX.Element {
  const state = usePanel(store);
  useEffect(() => {
    const ended = new AbortController();
    const onKeyDown = ({ key }: KeyboardEvent): void => {
      if (key === "Escape" && store.state.stream === undefined) actions.select(undefined);
    };
    // Listens on the browser window, which receives keys even if the focused element was removed.
    addEventListener("keydown", onKeyDown, { signal: ended.signal });
    return () => {
      ended.abort();
    };
  }, [store, actions]);
  return (
    <div class="panel">
      <Header state={state} actions={actions} />
      <div class="middle">
        <main class="rack-area" aria-label="Virtual machines and networks">
          <h1 class="unseen">Patch panel</h1>
          <Rack state={state} actions={actions} />
        </main>
        <Aside state={state} actions={actions} />
      </div>
      <Changes state={state} actions={actions} />
      {state.stream === undefined ? null : (
        <StreamWindow stream={state.stream} session={actions.session} actions={actions} />
      )}
      <p class="unseen" role="status" aria-live="polite">
        {state.announcement}
      </p>
    </div>
  );
}
