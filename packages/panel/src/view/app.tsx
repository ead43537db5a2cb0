// SPDX-License-Identifier: Apache-2.0
// The whole panel: who looks at what, the rack with its networks, what is selected, and what waits for Apply.
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { Actions } from "./actions.ts";
import { Changes } from "./changes.tsx";
import { Header } from "./header.tsx";
import { Inspector } from "./aside/inspector.tsx";
import { NewVmForm } from "./aside/new-vm.tsx";
import { Rack } from "./rack/rack.tsx";
import type { ViewProps } from "./props.ts";
import { usePanel, type PanelStore } from "./state.ts";
import type { Outside } from "../browser/session.ts";
import { StreamWindow } from "./stream.tsx";

const HEADINGS: Readonly<Record<Outside, string>> = {
  used: "This link opens nothing more",
  unanswered: "The panel's server does not answer",
};

/** Without a good link there is nothing to see. */
export function Closed({ why }: { readonly why: Outside }): JSX.Element {
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
  if (state.isCreating) return <NewVmForm state={state} actions={actions} />;
  return state.selection === undefined ? null : <Inspector state={state} actions={actions} />;
}

/** The panel. */
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
    // What had the focus may be gone: the window hears it all the same.
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
        {state.said}
      </p>
    </div>
  );
}
