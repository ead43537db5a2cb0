// SPDX-License-Identifier: Apache-2.0
// Every way of binding, by its kind.
import type { BindingKind, BindingModule } from "./binding.ts";
import { BRIDGE } from "./bridge.ts";
import { HOOK } from "./hook.ts";
import { MANAGED_TAP } from "./managed-tap.ts";
import { MASQUERADE } from "./masquerade.ts";
import { TAP } from "./tap.ts";
import { VHOST_USER } from "./vhost-user.ts";

/** What each way of binding means, wherever somebody asks. */
export const BINDINGS: Readonly<Record<BindingKind, BindingModule>> = {
  bridge: BRIDGE,
  masquerade: MASQUERADE,
  managedTap: MANAGED_TAP,
  tap: TAP,
  vhostuser: VHOST_USER,
  hook: HOOK,
};
