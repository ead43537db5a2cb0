// SPDX-License-Identifier: Apache-2.0
// How a guest's probes become probes of its launcher's container, which the kubelet asks. Source: KubeVirt
// pkg/virt-controller/services/template.go, whose times these are.
import type { Container, GuestProbe, Probe, VirtualMachineInstance } from "@patchbay/api";
import { domainNameOf } from "../node/domain-name.ts";

/** Added to the delay: libvirt starts, and then the guest, seconds. Source: KubeVirt LibvirtStartupDelay. */
const STARTUP_SECONDS = 10;
/** Added to the time for an answer where the guest's agent gives it, seconds. */
const AGENT_SECONDS = 1;
/** Source: Kubernetes, default timeoutSeconds of a probe. */
const TIMEOUT_SECONDS = 1;

/** What the kubelet does with it as with any other container's. */
const HANDED_ON = [
  "httpGet",
  "tcpSocket",
  "periodSeconds",
  "timeoutSeconds",
  "successThreshold",
  "failureThreshold",
] as const;

/** What the agent is sent: the command, whose output it keeps. Source: QEMU qga/qapi-schema.json guest-exec. */
function execRequest([path = "", ...args]: readonly string[]): string {
  const fields = { path, arg: args, "capture-output": true };
  return JSON.stringify({ execute: "guest-exec", arguments: fields });
}

/** The words of `virt-probe` in the launcher; undefined: the kubelet asks the guest itself. */
function commandOf(vmi: VirtualMachineInstance, probe: GuestProbe): readonly string[] | undefined {
  const { exec, guestAgentPing, timeoutSeconds = TIMEOUT_SECONDS } = probe;
  const words = [
    "virt-probe",
    domainNameOf(vmi),
    String(Math.max(timeoutSeconds, TIMEOUT_SECONDS)),
  ];
  if (guestAgentPing !== undefined) return words;
  return exec === undefined ? undefined : [...words, execRequest(exec.command ?? [])];
}

function containerProbeOf(vmi: VirtualMachineInstance, probe: GuestProbe): Probe {
  const { initialDelaySeconds = 0, timeoutSeconds = TIMEOUT_SECONDS } = probe;
  const command = commandOf(vmi, probe);
  const asked = HANDED_ON.filter((field) => probe[field] !== undefined);
  return {
    ...Object.fromEntries(asked.map((field) => [field, probe[field]])),
    initialDelaySeconds: initialDelaySeconds + STARTUP_SECONDS,
    ...(command !== undefined && {
      exec: { command },
      timeoutSeconds: Math.max(timeoutSeconds, TIMEOUT_SECONDS) + AGENT_SECONDS,
    }),
  };
}

/** The probes of the container that runs the guest. */
export function containerProbesOf(
  vmi: VirtualMachineInstance,
): Pick<Container, "livenessProbe" | "readinessProbe"> {
  const { livenessProbe, readinessProbe } = vmi.spec;
  return {
    ...(livenessProbe !== undefined && { livenessProbe: containerProbeOf(vmi, livenessProbe) }),
    ...(readinessProbe !== undefined && { readinessProbe: containerProbeOf(vmi, readinessProbe) }),
  };
}
