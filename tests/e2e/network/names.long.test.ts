// SPDX-License-Identifier: Apache-2.0
// A guest with hostname and subdomain finds its full name, which DNS has for its pod.
import { eventually, FEW_PORTS, vmManifest, type ManifestNic } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CHANGE_MS, expectReady, guestNic, machine } from "../machine.ts";

const SUBDOMAIN = "mysub";
const SERVICE_DOMAIN = `${SUBDOMAIN}.default.svc.cluster.local`;
const LABELS = { app: "named" };
const [BRIDGE, MASQUERADE] = ["named-bridge", "named-masquerade"];
const VMS = [BRIDGE, MASQUERADE];

/** The headless Service of the subdomain. */
const SERVICE = {
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: SUBDOMAIN, namespace: "default" },
  spec: { clusterIP: "None", selector: LABELS, ports: [{ name: "any", port: 1234 }] },
};

function startVm(name: string, nic: ManifestNic): void {
  machine.apply(vmManifest({ name, nics: [nic], pcieRootPorts: FEW_PORTS, running: false }));
  machine.patch("vm", name, [
    { op: "add", path: "/spec/template/metadata", value: { labels: LABELS } },
    { op: "add", path: "/spec/template/spec/subdomain", value: SUBDOMAIN },
  ]);
  machine.patchbay("start", name);
}

async function inGuest(vm: string, command: string): Promise<string> {
  return eventually(
    async () => {
      const { code, lines } = await machine.console(vm).run(command, { timeoutMs: CHANGE_MS });
      return code === 0 ? lines.join("\n") : undefined;
    },
    { withinMs: CHANGE_MS },
  );
}

beforeAll(async () => {
  machine.apply(SERVICE);
  startVm(BRIDGE, { name: "default" });
  startVm(MASQUERADE, { name: "default", binding: "masquerade" });
  for (const name of VMS) await machine.booted(name);
});

afterAll(() => {
  machine.deleteIfPresent("vm", ...VMS);
  machine.deleteIfPresent("service", SUBDOMAIN);
});

test.each(VMS)("hostname -f in the guest of %s prints the name that DNS has", async (vm) => {
  const { mac = "" } = await expectReady(vm, "default");
  expect(await inGuest(vm, `lease ${await guestNic(vm, mac)}`)).toMatch(
    new RegExp(` domain ${SERVICE_DOMAIN} hostname ${vm}$`, "m"),
  );
  expect(await inGuest(vm, "name")).toContain(`name ${vm}.${SERVICE_DOMAIN}`);
});
