// SPDX-License-Identifier: Apache-2.0
// A hook makes the guest's NIC at the guest's start, on whatever it likes: nothing of it is made or looked at here. Source:
// KubeVirt, a binding plugin without domainAttachmentType.
import type { BindingModule } from "./binding.ts";
import { TAP } from "./tap.ts";

export const HOOK: BindingModule = {
  ...TAP,
  kind: "hook",
  live: { plug: false, link: false, network: false },
};
