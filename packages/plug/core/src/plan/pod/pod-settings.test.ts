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
  const nameservers = ["01.1.1.1", "0127.0.0.3", "fd00::0a"];
  const { dnsConfig } = podSettingsOf(vmiWith({ dnsConfig: { nameservers } }));
  expect(dnsConfig).toEqual({ nameservers: ["1.1.1.1", "127.0.0.3", "fd00::a"] });
  expect(podSettingsOf(vmiWith({ dnsPolicy: "" }))).toEqual({ hostname: "vm1" });
});
