// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import { printKey } from "@patchbay/kube";
import type { VirtualMachineInstance } from "@patchbay/api";
import type { HypervisorEvent, LauncherPod, ObjectKey } from "@patchbay/core/interfaces";
import { launcherOn } from "@patchbay/core/migration";
import { parseAlias } from "@patchbay/core/nics";
import type { Deps } from "../deps.ts";
import type { LauncherContext } from "../reconcilers/vmi/steps/step-context.ts";
import type { Listener } from "../sessions/sessions.ts";

/** Returns the VMI's launcher pod on this node, or undefined if the VMI has no launcher on this node. */
export function findLauncher(
  vmi: VirtualMachineInstance,
  { nodeName }: Pick<Deps, "nodeName">,
): (LauncherPod & Pick<LauncherContext, "role">) | undefined {
  const launcher = launcherOn(vmi, nodeName);
  if (launcher === undefined) return undefined;
  return { ...launcher, namespace: vmi.metadata.namespace ?? "" };
}

/** Records a refused unplug if the event reports one, because libvirt reports a refusal only in an event. */
function recordRefusal(
  { metadata }: VirtualMachineInstance,
  event: HypervisorEvent,
  { unplugRequests }: Deps,
): void {
  if (event.kind !== "deviceRemovalFailed") return;
  const iface = parseAlias(event.alias);
  if (iface !== undefined) unplugRequests.recordRefusal(metadata.uid ?? "", iface);
}

export function buildListener(vmi: VirtualMachineInstance, deps: Deps, wake: () => void): Listener {
  return {
    wake,
    onEvent: (event) => {
      recordRefusal(vmi, event, deps);
    },
  };
}

export interface FoundGuest {
  readonly vmi: VirtualMachineInstance;
  readonly pod: LauncherPod;
  readonly listener: Listener;
}

/** Finds a guest that this node owns. @throws AppError with KUBE_NOT_FOUND if this node does not own the guest */
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
