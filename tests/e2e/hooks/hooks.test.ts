// SPDX-License-Identifier: Apache-2.0
// VMs whose hooks are scripts of a ConfigMap in an image of ours, as KubeVirt's own examples: what the guest gets of them, and
// what keeps it from starting.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { eventually, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { guestNics } from "../guest.ts";
import { addInterface, expectReady, guestNic, machine } from "../machine.ts";
import { virsh } from "../virsh.ts";

const { root: ROOT } = inject("machine");
const SHIM = "localhost/patchbay/sidecar-shim:dev";
const SIDECARS = "hooks.kubevirt.io/hookSidecars";
/** A refusal, or the end of a container, on a busy machine. */
const TOLD_MS = 90_000;
const MADE_MAC = "02:00:00:00:0d:01";

/** KubeVirt's own example, and the NIC of an interface as its bindings slirp and passt make one. */
const MARKS = `#!/bin/sh
printf '%s' "$4" | sed \\
  -e 's|</os>|<smbios mode="sysinfo"/></os><sysinfo type="smbios"><baseBoard><entry name="manufacturer">Radical Edward</entry></baseBoard></sysinfo>|' \\
  -e 's|</devices>|<interface type="user"><mac address="${MADE_MAC}"/><model type="virtio"/><alias name="ua-default"/></interface></devices>|'
`;
const TAKES_NIC = `#!/bin/sh
printf '%s' "$4" | tr '\\n' ' ' | sed -e 's|<interface.*</interface>||'
`;

function hook(key: string, args: readonly string[] = ["--version", "v1alpha3"]): object {
  return {
    image: SHIM,
    args,
    configMap: { name: "hooks", key, hookPath: "/usr/bin/onDefineDomain" },
  };
}

/** With a NIC of its own beside the one that is bound as asked. */
function start(name: string, asked: object, binding: object = { bridge: {} }): void {
  const annotations = { [SIDECARS]: JSON.stringify([asked]) };
  const nics = [{ name: "default" }, { name: "red1", network: "red" }];
  // As a person writes it: with a binding of the registry.
  const text = JSON.stringify(vmManifest({ name, nics, annotations }));
  const plain = JSON.stringify({ bridge: {}, name: "default" });
  machine.apply(JSON.parse(text.replace(plain, JSON.stringify({ ...binding, name: "default" }))));
}

/** What stands in the way of a VM. */
function told(name: string): string {
  const { conditions = [] } = machine.findVm(name)?.status ?? {};
  const { reason = "", message = "" } =
    conditions.find(({ type }) => type === "Synchronized") ?? {};
  return `${reason}: ${message}`;
}

function configure(featureGates: readonly string[], plugin: object | null): void {
  const network = { binding: { slirp: plugin } };
  const configuration = { developerConfiguration: { featureGates }, network };
  const patch = { spec: { configuration } };
  machine.kubectl(
    ...[
      "patch",
      "kubevirt/kubevirt",
      "-n",
      "patchbay",
      "--type",
      "merge",
      "-p",
      JSON.stringify(patch),
    ],
  );
}

beforeAll(() => {
  execFileSync(join(ROOT, "hack/images/make-images"), ["sidecar-shim"], { stdio: "inherit" });
  machine.patchbay("image", "add", SHIM, join(ROOT, ".cache/images/sidecar-shim.tar"));
  machine.apply({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "hooks", namespace: "default" },
    data: { "marks.sh": MARKS, "takes-nic.sh": TAKES_NIC },
  });
});

afterAll(() => {
  machine.kubectl("delete", "vm", "marked", "taken", "dead", "--ignore-not-found", "--wait=true");
  machine.kubectl("delete", "configmap", "hooks", "--ignore-not-found");
  configure([], null);
});

test("without the gate a VM with hooks is not started, and it is said who can change that", async () => {
  configure([], { sidecarImage: SHIM });
  start("marked", hook("marks.sh"), { binding: { name: "slirp" } });
  const isSaid = (): boolean => told("marked").includes("hooks of VMs are switched off");
  await eventually(isSaid, { withinMs: TOLD_MS });
  expect(machine.findVmi("marked")).toBeUndefined();
  configure(["Sidecar"], { sidecarImage: SHIM });
});

test("the guest is as its hook wants it, with its own NIC as it was", async () => {
  await machine.booted("marked");
  const xml = virsh("marked", "dumpxml");
  expect(xml).toContain("<entry name='manufacturer'>Radical Edward</entry>");
  const { mac = "" } = await expectReady("marked", "red1");
  expect(await guestNic("marked", mac)).not.toBe("");
});

test("an interface whose binding is a hook has the NIC that the hook has made", async () => {
  expect(await expectReady("marked", "default")).toMatchObject({ mac: MADE_MAC });
  expect(await guestNic("marked", MADE_MAC)).not.toBe("");
  const { name: pod = "" } = machine.findPod("marked")?.metadata ?? {};
  expect(machine.kubectl("logs", pod, "-c", "hook-sidecar-1")).toContain("for the binding slirp");
});

test("and NICs come as into any other", async () => {
  const before = (await guestNics("marked")).length;
  addInterface("marked", { name: "red2", network: "red" });
  const { mac = "" } = await expectReady("marked", "red2");
  expect(await guestNic("marked", mac)).not.toBe("");
  expect(await guestNics("marked")).toHaveLength(before + 1);
});

test("its hook hears of the end, and the pod goes", async () => {
  const { name: pod = "" } = machine.findPod("marked")?.metadata ?? {};
  const log = machine.kubectl("logs", pod, "-c", "hook-sidecar-0");
  // Asked twice, and by nobody else.
  expect(log.match(/running onDefineDomain/g)).toHaveLength(2);
  machine.patchbay("stop", "marked");
  await eventually(() => machine.findVmi("marked") === undefined, { withinMs: TOLD_MS });
});

test("a hook that takes away a NIC keeps the guest from starting, and it is said what to do", async () => {
  start("taken", hook("takes-nic.sh"));
  await eventually(() => told("taken").startsWith("HookAnswerRefused"), { withinMs: TOLD_MS });
  expect(told("taken")).toContain(
    "what hook shim (hook-sidecar-0) answers to OnDefineDomain is refused: /domain/devices/interface[ua-default]: a hook cannot take it away",
  );
  expect(machine.findVmi("taken")?.status?.phase).toBe("Scheduled");
});

test("a hook that dies ends the start, with its last words", async () => {
  start("dead", hook("marks.sh", ["--version", "v1alpha9"]));
  await eventually(() => told("dead").startsWith("HookSidecarEnded"), { withinMs: TOLD_MS });
  expect(told("dead")).toContain("the hook hook-sidecar-0");
  expect(told("dead")).toContain("invalid choice: 'v1alpha9'");
});
