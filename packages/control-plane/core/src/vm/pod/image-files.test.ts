// SPDX-License-Identifier: Apache-2.0
// How does a guest's kernel come into its launcher, and was it lost on the way?
import type { VirtualMachineInstance, VmiSpec } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { SETTINGS } from "../../testing/launcher-facts.ts";
import {
  parsePullPolicy,
  hasImageVolume,
  hasMissingImage,
  buildImageParts,
  listKernelImages,
} from "./image-files.ts";
import { buildLauncherPod } from "./launcher-pod.ts";
import { NO_PARTS } from "./parts.ts";

type Boot = NonNullable<NonNullable<VmiSpec["domain"]["firmware"]>["kernelBoot"]>["container"];

function vmiWith(container: Boot): VirtualMachineInstance {
  const vmi = aVmi();
  const kernelBoot = container === undefined ? {} : { container };
  return { ...vmi, spec: { ...vmi.spec, domain: { firmware: { kernelBoot } } } };
}

function partsOf(container: Boot, supportsImageVolumes: boolean) {
  const securityContext = { runAsUser: 107 };
  return buildImageParts(listKernelImages(vmiWith(container)), {
    image: "launcher",
    supportsImageVolumes,
    securityContext,
  });
}

function podOf(container: Boot, supportsImageVolumes: boolean): Pod {
  const request = {
    ...SETTINGS,
    supportsImageVolumes,
    ports: 0,
    claims: new Map(),
    definitions: new Map(),
    bindings: {},
    allowsHooks: false,
  };
  return buildLauncherPod(vmiWith(container), request);
}

const MOUNT = { name: "kernel-boot", mountPath: "/run/kernel-boot", readOnly: true };

describe("a kernel is provided", () => {
  test("by an image volume if the API server supports it", () => {
    expect(partsOf({ image: "guest" }, true)).toEqual({
      ...NO_PARTS,
      volumes: [{ name: "kernel-boot", image: { reference: "guest", pullPolicy: "IfNotPresent" } }],
      mounts: [MOUNT],
    });
  });

  test("otherwise by two containers: one provides the copy program, one copies from the kernel's image", () => {
    const boot = { image: "guest", kernelPath: "/boot/linux", initrdPath: "/initrd" };
    const { volumes, initContainers, mounts, diskMiB } = partsOf(boot, false);
    expect(volumes).toEqual([
      { name: "kernel-boot", emptyDir: { sizeLimit: "512Mi" } },
      { name: "copy-files", emptyDir: { sizeLimit: "16Mi" } },
    ]);
    expect(mounts).toEqual([MOUNT]);
    expect(diskMiB).toBe(528);
    const copies = { memory: "128Mi", "ephemeral-storage": "16Mi" };
    const shared = {
      imagePullPolicy: "IfNotPresent",
      terminationMessagePolicy: "FallbackToLogsOnError",
      resources: { requests: copies, limits: copies },
      securityContext: { runAsUser: 107 },
    };
    const program = { name: "copy-files", mountPath: "/patchbay/bin" };
    const target = "/patchbay/files";
    expect(initContainers).toEqual([
      {
        ...shared,
        name: "copy-files",
        image: "launcher",
        command: ["/usr/bin/copy-files", "--self", "/patchbay/bin"],
        volumeMounts: [program],
      },
      {
        ...shared,
        name: "kernel-boot",
        image: "guest",
        command: ["/patchbay/bin/copy-files", "--parents", target, "/boot/linux", "/initrd"],
        volumeMounts: [
          { ...program, readOnly: true },
          { name: "kernel-boot", mountPath: target },
        ],
      },
    ]);
  });

  test("without an initrd if none is set", () => {
    const [, copying] = partsOf({ image: "guest" }, false).initContainers;
    expect(copying?.command?.slice(2)).toEqual(["/patchbay/files", "/vmlinuz"]);
  });

  test.each([true, false])(
    "with the VM's pull policy and secret; image volumes: %s",
    (supportsImageVolumes) => {
      const boot = { image: "guest", imagePullPolicy: "Always", imagePullSecret: "key" };
      const { spec } = podOf(boot, supportsImageVolumes);
      expect(spec.imagePullSecrets).toEqual([{ name: "key" }]);
      const image = spec.volumes?.find(({ name }) => name === "kernel-boot")?.image;
      const policies = [image?.pullPolicy, spec.initContainers?.[1]?.imagePullPolicy];
      expect(policies.filter((policy) => policy !== undefined)).toEqual(["Always"]);
      expect(spec.containers[0]?.imagePullPolicy).toBe("IfNotPresent");
    },
  );

  test("not at all if no kernel is set", () => {
    expect(partsOf(undefined, false)).toEqual(NO_PARTS);
    expect(partsOf({ image: "guest", imagePullSecret: "" }, true).secrets).toEqual([]);
  });
});

test("counts copied files in the pod's disk limit", () => {
  const limitOf = (keeps: boolean): unknown =>
    podOf({ image: "guest" }, keeps).spec.containers[0]?.resources?.limits?.["ephemeral-storage"];
  expect([limitOf(true), limitOf(false)]).toEqual(["178Mi", "706Mi"]);
});

test.each([
  { name: undefined, want: "IfNotPresent" },
  { name: "", want: "IfNotPresent" },
  { name: "Never", want: "Never" },
  { name: "never", want: "IfNotPresent" },
])("the pull policy $name is parsed as $want", ({ name, want }) => {
  expect(parsePullPolicy(name)).toBe(want);
});

/** The pod on a node whose runtime cannot make its container. */
function stuck(pod: Pod, message: string): Pod {
  const state = { waiting: { reason: "CreateContainerError", message } };
  const status = { name: "compute", image: "i", imageID: "", ready: false, restartCount: 0, state };
  return { ...pod, status: { containerStatuses: [status] } };
}

describe("a stored pod", () => {
  const retained = podOf({ image: "guest" }, true);
  const copying = podOf({ image: "guest" }, false);
  const volumes = [{ name: "kernel-boot", emptyDir: {} }];
  const dropped: Pod = { ...retained, spec: { ...retained.spec, volumes } };
  // The words of containerd 1.6.20.
  const unknown = stuck(
    retained,
    'failed to generate container "c" spec: failed to generate spec: failed to mkdir "": mkdir : no such file or directory',
  );
  const failing = stuck(retained, "failed to create containerd task: no space left on device");
  const others: Pod = { ...dropped, spec: { ...dropped.spec, initContainers: [] } };

  test.each([
    { name: "with an image volume", pod: retained, lost: false, image: true },
    { name: "that copies the kernel", pod: copying, lost: false, image: false },
    { name: "whose image volume was dropped", pod: dropped, lost: true, image: false },
    {
      name: "whose image volume was dropped, without init containers",
      pod: others,
      lost: true,
      image: false,
    },
    { name: "whose runtime does not support image volumes", pod: unknown, lost: true, image: true },
    { name: "whose runtime fails for another reason", pod: failing, lost: false, image: true },
    { name: "without a kernel", pod: podOf(undefined, true), lost: false, image: false },
  ])("$name: lost $lost", ({ pod, lost, image }) => {
    expect(hasMissingImage(pod)).toBe(lost);
    expect(hasImageVolume(pod)).toBe(image);
  });
});
