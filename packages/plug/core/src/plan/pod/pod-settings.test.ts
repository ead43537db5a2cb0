// SPDX-License-Identifier: Apache-2.0
// What of a VMI's spec reaches its pod?
import type { VirtualMachineInstance } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { podSettingsOf } from "./pod-settings.ts";

function vmiWith(spec: Partial<VirtualMachineInstance["spec"]>): VirtualMachineInstance {
  const vmi = aVmi();
  return { ...vmi, spec: { domain: vmi.spec.domain, ...spec } };
}

test("Kubernetes is told what the VMI says, and nothing of what it does not say", () => {
  const given = {
    affinity: { nodeAffinity: {} },
    dnsConfig: { nameservers: ["192.0.2.1"] },
    dnsPolicy: "None",
    nodeSelector: { zone: "a" },
    priorityClassName: "high",
    schedulerName: "other",
    subdomain: "web",
    tolerations: [{ key: "example.com/edge", operator: "Exists" }],
    topologySpreadConstraints: [{ maxSkew: 1 }],
  };
  expect(podSettingsOf(vmiWith({ ...given, hostname: "web-1" }))).toEqual({
    ...given,
    hostname: "web-1",
  });
  expect(podSettingsOf(vmiWith({ dnsPolicy: "" }))).toEqual({ hostname: "vm1" });
});
