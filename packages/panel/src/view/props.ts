// SPDX-License-Identifier: Apache-2.0
// What is most views given?
import type { Actions } from "./actions.ts";
import type { PanelState } from "./state.ts";

/** What is shown, and what can be done. */
export interface ViewProps {
  readonly state: PanelState;
  readonly actions: Actions;
}
