// SPDX-License-Identifier: Apache-2.0
// Steps that start, replace and stop the DHCP server of a NIC.
import { blockedReasonOfFailure } from "@patchbay/core/status";
import type { NodeAction } from "@patchbay/core/vm";
import { keyOf, printKey } from "@patchbay/kube";
import { performTimed, type StepContext, type NodeStep } from "./step-context.ts";

export function serveStepName(iface: string): string {
  return `serveAddresses ${iface}`;
}

/** Only the served NIC shows the failure. */
export function buildServeStep(
  action: Extract<NodeAction, { kind: "serveAddresses" }>,
  context: StepContext,
): NodeStep {
  const { facts, pod, session, wake, deps } = context;
  const { iface } = action.nic;
  const serving = { netns: session.launcher.netns, nic: action.nic, onEnd: wake };
  return {
    scope: facts.vmi.metadata.uid ?? "",
    name: serveStepName(iface),
    inputs: JSON.stringify(action),
    ifaces: [iface],
    isOnDevice: false,
    perform: () => performTimed(action, context, () => deps.guestServers.serve(pod.uid, serving)),
    explain: (error) => blockedReasonOfFailure("serveAddresses", error, undefined),
    log: ({ pauseMs: retryMs, error: err }) => {
      const vmi = printKey(keyOf(facts.vmi));
      deps.log.warn("failed to start the DHCP server of a NIC", { vmi, iface, retryMs, err });
    },
  };
}

export function buildStopServingStep(
  action: Extract<NodeAction, { kind: "stopServing" }>,
  context: StepContext,
): NodeStep {
  const { facts, pod, deps } = context;
  const { bridgeName } = action;
  return {
    scope: facts.vmi.metadata.uid ?? "",
    name: `stopServing ${bridgeName}`,
    inputs: "",
    ifaces: [],
    isOnDevice: false,
    perform: () =>
      performTimed(action, context, () => deps.guestServers.stopAt(pod.uid, bridgeName)),
    explain: (error) => blockedReasonOfFailure("serveAddresses", error, undefined),
    log: ({ error: err }) => {
      deps.log.warn("failed to stop the DHCP server of a NIC", { link: bridgeName, err });
    },
  };
}
