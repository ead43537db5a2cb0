// SPDX-License-Identifier: Apache-2.0
// What a launcher has for the hooks of its guest.
import { names, type BindingRegistry, type VirtualMachineInstance } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { withNics } from "../nics/nics.ts";
import { findFailedHook, hasRunningHook, buildHookParts } from "./hook-sidecars.ts";

const BINDINGS: BindingRegistry = {
  helped: {
    domainAttachmentType: "tap",
    sidecarImage: "example.com/helper",
    downwardAPI: "device-info",
  },
  plain: { domainAttachmentType: "tap" },
};
const INFO = { name: "podinfo", mountPath: "/etc/podinfo" };

function vmiWith(
  sidecars: readonly object[],
  ...bindings: readonly string[]
): VirtualMachineInstance {
  const vmi = aVmi();
  const called = bindings.map((name, index) => ({ name: `n${String(index)}`, binding: { name } }));
  const networks = called.map(({ name }) => ({ name, multus: { networkName: name } }));
  const annotations = { [names.HOOK_SIDECARS_ANNOTATION]: JSON.stringify(sidecars) };
  return {
    ...vmi,
    metadata: { ...vmi.metadata, annotations },
    spec: withNics(vmi.spec, networks, called),
  };
}

function partsOf(vmi: VirtualMachineInstance, allowsHooks = true) {
  const settings = { bindings: BINDINGS, allowsHooks, sidecarShimImage: "shim" };
  return buildHookParts(vmi, settings, INFO);
}

test("lists the VMI's hooks first, then one for each binding with a hook", () => {
  const vmi = vmiWith(
    [{ image: "one", args: ["-v"] }, { image: "two" }],
    "helped",
    "plain",
    "helped",
  );
  const { containers, volumes, mounts } = partsOf(vmi);
  expect(containers.map(({ name, image, args, env }) => ({ name, image, args, env }))).toEqual([
    ...[
      { name: "hook-sidecar-0", image: "one", args: ["-v"] },
      { name: "hook-sidecar-1", image: "two", args: undefined },
    ].map((one) => ({ ...one, env: [{ name: "CONTAINER_NAME", value: one.name }] })),
    {
      name: "hook-sidecar-2",
      image: "example.com/helper",
      args: undefined,
      env: [
        { name: "CONTAINER_NAME", value: "hook-sidecar-2" },
        { name: "NETWORK_BINDING_PLUGIN_NAME", value: "helped" },
      ],
    },
  ]);
  expect(volumes.map(({ name }) => name)).toEqual(containers.map(({ name }) => name));
  expect(mounts.map(({ mountPath, readOnly }) => [mountPath, readOnly])).toEqual(
    containers.map(({ name }) => [`/var/run/kubevirt-hooks/${name}`, true]),
  );
});

test("each hook listens in its own directory at KubeVirt's path, without privileges", () => {
  const [container] = partsOf(vmiWith([{ image: "one" }])).containers;
  expect(container?.volumeMounts).toEqual([
    { name: "hook-sidecar-0", mountPath: "/var/run/kubevirt-hooks" },
  ]);
  expect(container?.securityContext).toEqual({
    runAsUser: 107,
    runAsGroup: 107,
    runAsNonRoot: true,
    allowPrivilegeEscalation: false,
    capabilities: { drop: ["ALL"] },
  });
  expect(Object.keys(container?.resources?.limits ?? {})).toEqual([
    "cpu",
    "memory",
    "ephemeral-storage",
  ]);
});

test("mounts a ConfigMap's script where the hook's program expects it", () => {
  const configMap = { name: "scripts", key: "my.sh", hookPath: "/usr/bin/onDefineDomain" };
  const { containers, volumes } = partsOf(vmiWith([{ image: "shim", configMap }]));
  const name = "hook-sidecar-0-script";
  expect(volumes[1]).toEqual({ name, configMap: { name: "scripts", defaultMode: 0o755 } });
  expect(containers[0]?.volumeMounts?.[1]).toEqual({
    name,
    mountPath: "/usr/bin/onDefineDomain",
    subPath: "my.sh",
    readOnly: true,
  });
});

test("mounts a claim in the hook and, if requested, in the guest; uses the shim image for programs", () => {
  const pvc = { name: "tools", volumePath: "/debug", sharedComputePath: "/var/run/debug" };
  const other = { name: "more", volumePath: "/more" };
  const { containers, volumes, mounts } = partsOf(vmiWith([{ pvc }, { image: "x", pvc: other }]));
  const name = "hook-sidecar-0-claim";
  expect(containers.map(({ image }) => image)).toEqual(["shim", "x"]);
  expect(volumes[1]).toEqual({ name, persistentVolumeClaim: { claimName: "tools" } });
  expect(containers[0]?.volumeMounts?.[1]).toEqual({ name, mountPath: "/debug" });
  expect(mounts.slice(1)).toMatchObject([
    { name, mountPath: "/var/run/debug" },
    { name: "hook-sidecar-1" },
  ]);
});

test("passes the launcher's network-info to hooks that request it", () => {
  const vmi = vmiWith([{ image: "one" }, { image: "two", downwardAPI: "device-info" }], "helped");
  const reads = partsOf(vmi).containers.map(({ volumeMounts }) => volumeMounts?.includes(INFO));
  expect(reads).toEqual([false, true, true]);
});

test("lists only the bindings' hooks if VMs may have none", () => {
  const { containers } = partsOf(vmiWith([{ image: "one" }], "helped"), false);
  expect(containers.map(({ image }) => image)).toEqual(["example.com/helper"]);
});

describe("hook containers of a pod", () => {
  const state = {
    running: { running: {} },
    done: { terminated: { exitCode: 0 } },
    failed: { terminated: { exitCode: 3 } },
  };
  function podWith(container: string, is: keyof typeof state): Pod {
    const status = { name: container, image: "i", imageID: "", ready: true, restartCount: 0 };
    return {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "p" },
      spec: { containers: [] },
      status: { containerStatuses: [{ ...status, state: state[is] }] },
    };
  }

  test.each([
    { container: "hook-sidecar-0", is: "running", runs: true, fails: false },
    { container: "hook-sidecar-0", is: "done", runs: false, fails: false },
    { container: "hook-sidecar-0", is: "failed", runs: false, fails: true },
    { container: "compute", is: "failed", runs: false, fails: false },
    { container: "compute", is: "running", runs: false, fails: false },
  ] as const)("$container in state $is", ({ container, is, runs, fails }) => {
    const pod = podWith(container, is);
    expect([hasRunningHook(pod), findFailedHook(pod) !== undefined]).toEqual([runs, fails]);
  });
});
