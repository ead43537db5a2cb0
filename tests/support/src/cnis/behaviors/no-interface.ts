// SPDX-License-Identifier: Apache-2.0
// Returns a result without interfaces and creates none. Source: KubeVirt's network binding plugins, whose CNI plugin configures
// only the pod (cmd/cniplugins/passt-binding).
import type { Behavior } from "../call.ts";

export const NO_INTERFACE: Behavior = {
  add: () => ({ cniVersion: "1.0.0", interfaces: [], ips: [] }),
  remove: () => undefined,
};
