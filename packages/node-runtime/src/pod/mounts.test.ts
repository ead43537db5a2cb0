// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/core";
import { expect, test } from "vitest";
import { planMounts, printMounts, type ContainerToRun } from "./mounts.ts";
import { aLauncherPod, aPodFacts } from "./testing.ts";

const IMAGE = {
  root: "/",
  entrypoint: ["/run/patchbay/init"],
  binds: [["/opt/init", "/run/patchbay/init"]],
  hidden: ["/root"],
  hasOwnAccounts: true,
} as const;

function aRun(change: Partial<ContainerToRun> = {}): ContainerToRun {
  const pod = aLauncherPod();
  const [container = { name: "", image: "" }] = pod.spec.containers;
  const { paths } = aPodFacts({ kind: "absent" });
  const imageVolumes = new Map([["guest", "/i/guest"]]);
  return { pod, container, image: IMAGE, imageVolumes, paths, bundle: "/b", ...change };
}

test("the root first, then what hides it, files, volumes and devices", () => {
  const { directory } = aRun().paths;
  expect(planMounts(aRun())).toEqual([
    ["root", "/"],
    ["tmpfs", "/root", "ro,size=4k,mode=755"],
    ["bind", "/b/group", "/etc/group", "ro"],
    ["bind", "/b/hosts", "/etc/hosts", "ro"],
    ["bind", "/b/passwd", "/etc/passwd", "ro"],
    ["bind", "/opt/init", "/run/patchbay/init", "ro"],
    ["bind", `${directory}/volumes/kubernetes.io~empty-dir/launcher`, "/run/launcher", "rw"],
    ["bind", "/i/guest", "/run/kernel-boot", "ro"],
    ["device", "/dev/net/tun"],
  ]);
});

test.each([
  { name: "a volume that is not declared", volumeMounts: [{ name: "x", mountPath: "/x" }] },
  { name: "a path with a tab", volumeMounts: [{ name: "launcher", mountPath: "/x\ty" }] },
  { name: "a path with a line break", volumeMounts: [{ name: "launcher", mountPath: "/x\ny" }] },
])("$name is refused", ({ volumeMounts }) => {
  const container = { name: "compute", image: "virt-launcher", volumeMounts };
  expect(() => printMounts(aRun({ container }))).toThrow(AppError);
});
