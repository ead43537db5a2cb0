// SPDX-License-Identifier: Apache-2.0
// VMs whose hooks are scripts from a ConfigMap and a claim in our image, like KubeVirt's examples: their effect on the
// guest, and failures that prevent its start.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { eventually, FEW_PORTS, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { guestNics } from "../guest.ts";
import { addInterface, expectReady, guestNic, machine } from "../machine.ts";
import { virsh } from "../virsh.ts";

const { root: ROOT } = inject("machine");
const SHIM = "localhost/patchbay/sidecar-shim:dev";
const SIDECARS = "hooks.kubevirt.io/hookSidecars";
/** Time for a rejection or the end of a container on a busy machine. */
const REPORT_TIMEOUT_MS = 90_000;
const MADE_MAC = "02:00:00:00:0d:01";
const ARGS_MAC = "02:00:00:00:0d:02";

/** QEMU's newer syntax, as in KubeVirt: the older one creates devices before the domain's and takes their addresses. */
const ARGS_DEVICE = JSON.stringify({
  driver: "virtio-net-pci",
  netdev: "args1",
  id: "args1",
  mac: ARGS_MAC,
}).replaceAll('"', String.raw`\&quot;`);

/**
 * As in KubeVirt's examples: smbios, a NIC of the binding passt, which libvirt supports, and one of slirp, which only
 * QEMU supports.
 */
const MARKS = `#!/bin/sh
printf '%s' "$4" | sed \\
  -e 's|</os>|<smbios mode="sysinfo"/></os><sysinfo type="smbios"><baseBoard><entry name="manufacturer">Radical Edward</entry></baseBoard></sysinfo>|' \\
  -e 's|</devices>|<interface type="user"><mac address="${MADE_MAC}"/><model type="virtio"/><alias name="ua-default"/></interface></devices>|' \\
  -e 's|<domain |<domain xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0" |' \\
  -e 's|</domain>|<qemu:commandline><qemu:arg value="-netdev"/><qemu:arg value="user,id=args1"/><qemu:arg value="-device"/><qemu:arg value="${ARGS_DEVICE}"/></qemu:commandline></domain>|'
`;
const TAKES_NIC = `#!/bin/sh
printf '%s' "$4" | tr '\\n' ' ' | sed -e 's|<interface.*</interface>||'
`;

/** On a claim, under a name in the image's PATH. */
const USERS = `#!/bin/sh
printf '%s' "$4" | sed -e 's|of its owner|of its hook|'
`;
const USER_DATA = "#!/bin/sh\n# of its owner\necho ready\n";
const CLAIM = "hook-users";
const CLAIMED = {
  image: SHIM,
  command: ["/bin/sh", "-c", "PATH=/scripts:$PATH exec sidecar-shim"],
  pvc: { name: CLAIM, volumePath: "/scripts" },
};

/** Writes the program by a pod, like its user. */
async function fillClaim(): Promise<void> {
  const container = {
    name: "fill",
    image: SHIM,
    env: [{ name: "TEXT", value: USERS }],
    command: [
      "sh",
      "-c",
      'printf %s "$TEXT" >/claim/preCloudInitIso && chmod +x /claim/preCloudInitIso',
    ],
    volumeMounts: [{ name: "claim", mountPath: "/claim" }],
  };
  const metadata = { name: CLAIM, namespace: "default" };
  machine.apply(
    {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata,
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "16Mi" } } },
    },
    {
      apiVersion: "v1",
      kind: "Pod",
      metadata,
      spec: {
        restartPolicy: "Never",
        containers: [container],
        securityContext: { runAsUser: 107, runAsGroup: 107, fsGroup: 107, runAsNonRoot: true },
        volumes: [{ name: "claim", persistentVolumeClaim: { claimName: CLAIM } }],
      },
    },
  );
  await eventually(() => machine.findPodPhase(CLAIM) === "Succeeded", {
    withinMs: REPORT_TIMEOUT_MS,
  });
  machine.delete("pod", CLAIM);
}

function hook(key: string, args: readonly string[] = ["--version", "v1alpha3"]): object {
  return {
    image: SHIM,
    args,
    configMap: { name: "hooks", key, hookPath: "/usr/bin/onDefineDomain" },
  };
}

/** With a cloud-init disk and two NICs; the named ones use a registered binding and are added. */
function start(
  name: string,
  requested: readonly object[],
  bindings: Readonly<Record<string, string>> = {},
): void {
  const annotations = { [SIDECARS]: JSON.stringify(requested) };
  const own = [{ name: "default" }, { name: "red1", network: "red" }];
  const others = Object.keys(bindings).filter((each) => own.every((nic) => nic.name !== each));
  const nics = [...own, ...others.map((each) => ({ name: each, network: "red" }))];
  // As a user writes it.
  const text = JSON.stringify(vmManifest({ name, nics, annotations, pcieRootPorts: FEW_PORTS }));
  const bound = Object.entries(bindings).reduce((manifest, [nic, binding]) => {
    const plain = JSON.stringify({ bridge: {}, name: nic });
    return manifest.replace(plain, JSON.stringify({ binding: { name: binding }, name: nic }));
  }, text);
  const disks = JSON.stringify([{ name: "init", disk: { bus: "virtio" } }]);
  const volumes = JSON.stringify([{ name: "init", cloudInitNoCloud: { userData: USER_DATA } }]);
  const whole = bound
    .replace('"devices":{', `"devices":{"disks":${disks},`)
    .replace('"networks":', `"volumes":${volumes},"networks":`);
  machine.apply(JSON.parse(whole));
}

/** The reason that a VM does not start. */
function reported(name: string): string {
  const { conditions = [] } = machine.findVm(name)?.status ?? {};
  const { reason = "", message = "" } =
    conditions.find(({ type }) => type === "Synchronized") ?? {};
  return `${reason}: ${message}`;
}

function configure(featureGates: readonly string[], plugin: object | null): void {
  const network = { binding: { passt: plugin, slirp: plugin } };
  const configuration = { developerConfiguration: { featureGates }, network };
  machine.patch("kubevirt", "kubevirt", { spec: { configuration } });
}

beforeAll(async () => {
  execFileSync(join(ROOT, "hack/images/make-images"), ["sidecar-shim"], { stdio: "inherit" });
  machine.patchbay("image", "add", SHIM, join(ROOT, ".cache/images/sidecar-shim.tar"));
  machine.apply({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "hooks", namespace: "default" },
    data: { "marks.sh": MARKS, "takes-nic.sh": TAKES_NIC },
  });
  await fillClaim();
});

afterAll(() => {
  machine.deleteIfPresent("vm", "marked", "taken", "dead");
  machine.deleteIfPresent("configmap", "hooks");
  machine.deleteIfPresent("pod", CLAIM);
  machine.deleteIfPresent("pvc", CLAIM);
  configure([], null);
});

test("a VM with hooks is not started without the feature gate, and a condition reports why", async () => {
  configure([], { sidecarImage: SHIM });
  start("marked", [hook("marks.sh"), CLAIMED], { default: "passt", args1: "slirp" });
  const isReported = (): boolean => reported("marked").includes("hooks of VMs are switched off");
  await eventually(isReported, { withinMs: REPORT_TIMEOUT_MS });
  expect(machine.findVmi("marked")).toBeUndefined();
  configure(["Sidecar"], { sidecarImage: SHIM });
});

test("the guest has its hook's changes and its own unchanged NIC", async () => {
  await machine.booted("marked");
  const xml = virsh("marked", "dumpxml");
  expect(xml).toContain("<entry name='manufacturer'>Radical Edward</entry>");
  const { mac = "" } = await expectReady("marked", "red1");
  expect(await guestNic("marked", mac)).not.toBe("");
});

test("an interface with a hook binding has the NIC that the hook defined", async () => {
  expect(await expectReady("marked", "default")).toMatchObject({ mac: MADE_MAC });
  expect(await guestNic("marked", MADE_MAC)).not.toBe("");
  const { name: pod = "" } = machine.findPod("marked")?.metadata ?? {};
  expect(machine.kubectl("logs", pod, "-c", "hook-sidecar-2")).toContain("for the binding passt");
});

test("an interface with a hook in QEMU's arguments has its NIC", async () => {
  await expectReady("marked", "args1");
  expect(await guestNic("marked", ARGS_MAC)).not.toBe("");
  expect(await guestNic("marked", ARGS_MAC)).not.toBe("");
  const { name: pod = "" } = machine.findPod("marked")?.metadata ?? {};
  expect(machine.kubectl("logs", pod, "-c", "hook-sidecar-3")).toContain("for the binding slirp");
});

test("cloud-init's disk has the content that a hook program from a claim produced", async () => {
  const { lines } = await machine.console("marked").run("text cidata user-data");
  const texts = lines.flatMap((line) => /^text (.*)$/.exec(line)?.[1] ?? []);
  expect(texts.map((text) => text.trimEnd())).toEqual(["#!/bin/sh", "# of its hook", "echo ready"]);
});

test("NICs are plugged as into any other guest", async () => {
  const before = (await guestNics("marked")).length;
  addInterface("marked", { name: "red2", network: "red" });
  const { mac = "" } = await expectReady("marked", "red2");
  expect(await guestNic("marked", mac)).not.toBe("");
  expect(await guestNics("marked")).toHaveLength(before + 1);
});

test("its hook is notified of the end, and the pod ends", async () => {
  const { name: pod = "" } = machine.findPod("marked")?.metadata ?? {};
  const log = machine.kubectl("logs", pod, "-c", "hook-sidecar-0");
  // Called twice, and by no other client.
  expect(log.match(/running onDefineDomain/g)).toHaveLength(2);
  machine.patchbay("stop", "marked");
  await eventually(() => machine.findVmi("marked") === undefined, { withinMs: REPORT_TIMEOUT_MS });
});

test("a hook that removes a NIC prevents the guest's start, and the next step is reported", async () => {
  start("taken", [hook("takes-nic.sh")]);
  await eventually(() => reported("taken").startsWith("HookAnswerRefused"), {
    withinMs: REPORT_TIMEOUT_MS,
  });
  expect(reported("taken")).toContain(
    "the answer of hook shim (hook-sidecar-0) to OnDefineDomain was refused: /domain/devices/interface[ua-default]: a hook cannot take it away",
  );
  expect(machine.findVmi("taken")?.status?.phase).toBe("Scheduled");
});

test("a hook that dies ends the start with its last output", async () => {
  start("dead", [hook("marks.sh", ["--version", "v1alpha9"])]);
  await eventually(() => reported("dead").startsWith("HookSidecarEnded"), {
    withinMs: REPORT_TIMEOUT_MS,
  });
  expect(reported("dead")).toContain("the hook hook-sidecar-0");
  expect(reported("dead")).toContain("invalid choice: 'v1alpha9'");
});
