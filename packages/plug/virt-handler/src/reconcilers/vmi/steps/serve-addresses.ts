// SPDX-License-Identifier: Apache-2.0
// The step that starts the DHCP server of a VM, or another in its place.
import { hindranceOfFailure, type NodeAction } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import { timed, type StepContext } from "../step-context.ts";
import type { NodeStep } from "./node-step.ts";

/** Name of the step among those that are left alone. */
export const SERVE_STEP = "serveAddresses";

/** Every iface that the server is for hears of its failure. */
export function serveStep(
  action: Extract<NodeAction, { kind: "serveAddresses" }>,
  context: StepContext,
): NodeStep {
  const { facts, pod, session, wake, deps } = context;
  const serving = { netns: session.launcher.netns, nics: action.nics, ended: wake };
  return {
    scope: facts.vmi.metadata.uid ?? "",
    name: SERVE_STEP,
    circumstances: JSON.stringify(action),
    ifaces: action.nics.map(({ iface }) => iface),
    isOnDevice: false,
    perform: () => timed(action, context, () => deps.guestServers.serve(pod.uid, serving)),
    explain: (error) => hindranceOfFailure("serveAddresses", error, undefined),
    log: ({ pauseMs: retryMs, error: err }) => {
      const vmi = printKey(keyOf(facts.vmi));
      deps.log.warn("the guest gets no addresses", { vmi, retryMs, err });
    },
  };
}
