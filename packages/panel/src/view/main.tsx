// SPDX-License-Identifier: Apache-2.0
// The page: gets in, follows what changes, and shows it.
import { render } from "preact";
import { askBeforeLeaving } from "../browser/leaving.ts";
import { openSession } from "../browser/session.ts";
import { setTheme } from "../browser/settings.ts";
import { follow } from "../browser/watch.ts";
import { Actions } from "./actions.ts";
import { App, Closed } from "./app.tsx";
import { isBusy, isSent, PanelStore } from "./state.ts";

async function start(root: HTMLElement): Promise<void> {
  const store = new PanelStore();
  setTheme(store.state.theme);
  const session = await openSession();
  if (session === "used" || session === "unanswered") {
    render(<Closed why={session} />, root);
    return;
  }
  const actions = new Actions(store, session);
  store.set({ stage: "open", session });
  // What waits for Apply is kept here only, and who looks whether a plug works is this page.
  askBeforeLeaving(() => store.state.gathered.some((each) => isBusy(each) || !isSent(each)));
  render(<App store={store} actions={actions} />, root);
  void actions.learnRights(session.namespace);
  await follow(session, {
    onLines: (lines) => {
      store.take(lines);
    },
    onLive: (isLive) => {
      store.set({ isLive });
    },
  });
  render(<Closed why="used" />, root);
}

// Another link, opened in the same tab, changes nothing but the fragment.
addEventListener("hashchange", () => {
  location.reload();
});
const root = document.querySelector<HTMLElement>("#panel");
if (root !== null) void start(root);
