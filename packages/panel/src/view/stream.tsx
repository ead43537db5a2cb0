// SPDX-License-Identifier: Apache-2.0
// A window with a guest's console or screen; what it needs is loaded when it is opened.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Session } from "../browser/session.ts";
import { openStream, type Opened, type StreamOf, type Tell } from "../browser/streams.ts";
import { long, short } from "../model/shown.ts";
import type { Actions } from "./actions.ts";

/** What a script of a stream offers. */
interface StreamScript {
  readonly open: (element: HTMLElement, socket: WebSocket, tell: Tell) => Opened;
}

/** Files of their own, by what they show. */
const SCRIPTS = { console: "/console.js", vnc: "/screen.js" } as const;
const TITLES = { console: "Console", vnc: "Screen" } as const;

interface StreamProps {
  readonly stream: StreamOf;
  readonly session: Session;
  readonly actions: Actions;
}

/** Opens the stream in the element while the window is there; what is told of it. */
function useStream(stream: StreamOf, session: Session) {
  const dialog = useRef<HTMLDialogElement>(null);
  const element = useRef<HTMLDivElement>(null);
  const [words, setWords] = useState("connecting…");
  useEffect(() => {
    dialog.current?.showModal();
    let opened: Opened | undefined;
    let isGone = false;
    // Our own file; its shape is checked where it is built.
    void (import(SCRIPTS[stream.what]) as Promise<StreamScript>).then(({ open }) => {
      if (isGone || element.current === null) return;
      opened = open(element.current, openStream(session, stream), (said) => {
        setWords(long(said));
      });
    });
    return () => {
      isGone = true;
      opened?.close();
    };
  }, [stream, session]);
  return { dialog, element, words };
}

/** The window; it takes the console or the screen from whoever has it. */
export function StreamWindow({ stream, session, actions }: StreamProps): JSX.Element {
  const { dialog, element, words } = useStream(stream, session);
  const title = `${TITLES[stream.what]} of ${short(stream.name)}`;
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
          {words}
        </span>
        <button type="button" class="quiet close" onClick={onClose}>
          Close
        </button>
      </div>
      <div class={`stream-body stream-${stream.what}`} ref={element} />
    </dialog>
  );
}
