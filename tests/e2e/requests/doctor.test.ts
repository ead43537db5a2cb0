// SPDX-License-Identifier: Apache-2.0
// The doctor's output for a healthy machine and for a faulty network.
import { eventually } from "@patchbay/support";
import { expect, test } from "vitest";
import { CHANGE_MS, machine } from "../machine.ts";

const NETWORK = { name: "of-no-link", namespace: "default" };

/** Excludes the subjects of other tests on this machine. */
function diagnose(): { readonly code: number; readonly lines: readonly string[] } {
  const { code, stdout } = machine.try(["patchbay", "--data-dir", machine.dataDir, "doctor"]);
  return { code, lines: stdout.split("\n") };
}

test("a healthy machine: processes, API, webhooks, certificates and node are ok", () => {
  const { lines } = diagnose();
  const output = lines.filter((line) => !line.includes("network ") && !line.includes("fix: "));
  expect(output.filter((line) => !line.startsWith("ok "))).toEqual([""]);
  for (const what of [
    "API server: Kubernetes",
    "clock of the API server",
    "API kubevirt.io/v1",
    "webhooks of virt-api: set defaults of VMs and reject invalid ones",
    "certificate: authority of the API server: is valid until",
    "certificate: yours, of the kubeconfig",
    "supervisor: manages",
    "process virt-handler: runs and responds",
    "node ",
    "start of a pod: a pod with the launchers' image and user starts and ends",
    "leftovers: none",
  ]) {
    expect(output.join("\n")).toContain(`ok     ${what}`);
  }
});

test("reports an unusable network with the next step, and the exit code shows it", async () => {
  const config = { cniVersion: "0.4.0", name: "lost", type: "macvlan", master: "no-such-link" };
  machine.apply({
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: NETWORK,
    spec: { config: JSON.stringify(config) },
  });
  try {
    const found = await eventually(
      () => {
        const { code, lines } = diagnose();
        const at = lines.findIndex((line) => line.includes("network default/of-no-link"));
        return at === -1 ? undefined : { code, said: lines[at] ?? "", fix: lines[at + 1] ?? "" };
      },
      { withinMs: CHANGE_MS },
    );
    expect(found.code).toBe(1);
    expect(found.said).toMatch(/^WRONG {2}network default\/of-no-link: \w+ on node .*no-such-link/);
    expect(found.fix).toContain("fix: ");
  } finally {
    machine.delete("net-attach-def", NETWORK.name);
  }
});
