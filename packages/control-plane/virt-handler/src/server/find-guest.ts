// SPDX-License-Identifier: Apache-2.0
// Lookup of a guest of this node and of its launcher.
import { AppError } from "@patchbay/base";
import { printKey } from "@patchbay/kube";
import type { VirtualMachineInstance } from "@patchbay/api";
import type { LauncherPod, ObjectKey } from "@patchbay/core/interfaces";
import type { Deps } from "../deps.ts";
import { findLauncher, buildListener } from "../reconcilers/vmi/index.ts";
import type { Listener } from "../sessions/sessions.ts";

export interface FoundGuest {
  readonly vmi: VirtualMachineInstance;
  readonly pod: LauncherPod;
  readonly listener: Listener;
}

/** @throws AppError with KUBE_NOT_FOUND when the guest is not on this node */
export function findGuest(key: ObjectKey, deps: Deps, wake: (key: string) => void): FoundGuest {
  const vmi = deps.vmis.find(key);
  const launcher = vmi === undefined ? undefined : findLauncher(vmi, deps);
  if (vmi === undefined || launcher?.role !== "owner") {
    const resource = `virtualmachineinstance on node ${deps.nodeName}`;
    throw new AppError("KUBE_NOT_FOUND", { resource, object: printKey(key) });
  }
  const listener = buildListener(vmi, deps, () => {
    wake(printKey(key));
  });
  return { vmi, pod: launcher, listener };
}
