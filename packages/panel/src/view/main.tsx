// SPDX-License-Identifier: Apache-2.0
import { render } from "preact";
import { openSession } from "../browser/session.ts";
import { setTheme } from "../browser/settings.ts";
import { follow } from "../browser/watch.ts";
import { Actions } from "./actions.ts";
import { App, AccessDenied } from "./app.tsx";
import { isBusy, isSent, PanelStore } from "./state.ts";

/** Requests confirmation before the page is closed if `isNeeded` returns true. Source: beforeunload of the HTML Standard. */
function confirmBeforeLeaving(isNeeded: () => boolean): void {
  addEventListener("beforeunload", (event) => {
    if (isNeeded()) event.preventDefault();
  });
}

async function start(root: HTMLElement): Promise<void> {
  const store = new PanelStore();
  setTheme(store.state.theme);
  const session = await openSession();
  if (session === "used" || session === "unanswered") {
    render(<AccessDenied why={session} />, root);
    return;
  }
  const actions = new Actions(store, session);
  store.set({ stage: "open", session });
  // Closing the page would discard unsent changes and abort running checks.
  confirmBeforeLeaving(() =>
    store.state.pendingChanges.some((each) => isBusy(each) || !isSent(each)),
  );
  render(<App store={store} actions={actions} />, root);
  void actions.loadRights(session.namespace);
  await follow(session, {
    onLines: (lines) => {
      store.addLines(lines);
    },
    onLive: (isLive) => {
      store.set({ isLive });
    },
  });
  render(<AccessDenied why="used" />, root);
}

// Reloads the page, because opening another `patchbay ui` link in the same tab changes only the fragment.
addEventListener("hashchange", () => {
  location.reload();
});
const root = document.querySelector<HTMLElement>("#panel");
if (root !== null) void start(root);
