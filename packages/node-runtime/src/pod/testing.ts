// SPDX-License-Identifier: Apache-2.0
// Builders of facts for the tests of this folder.
import type { Pod } from "@patchbay/api";
import type { ContainerState } from "./containers.ts";
import type { PodFacts } from "./facts.ts";
import { pathsOf } from "./paths.ts";

const UID = "0f1e2d3c";

/** A pod with one launcher container. */
export function aLauncherPod(change: Partial<Pod> = {}): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "a", namespace: "ns", uid: UID, resourceVersion: "7" },
    spec: {
      nodeName: "n",
      containers: [
        {
          name: "compute",
          image: "virt-launcher",
          resources: { limits: { "devices.kubevirt.io/tun": "1" } },
          volumeMounts: [
            { name: "launcher", mountPath: "/run/launcher" },
            { name: "boot", mountPath: "/run/kernel-boot" },
          ],
        },
      ],
      volumes: [
        { name: "launcher", emptyDir: {} },
        { name: "boot", image: { reference: "guest" } },
      ],
    },
    ...change,
  };
}

/** Facts of a pod that was made, with its container in `state`. */
export function aPodFacts(state: ContainerState, change: Partial<PodFacts> = {}): PodFacts {
  const pod = aLauncherPod();
  const directories = { pods: "/p", images: "/i", state: "/s", cniConf: "/c", libexec: "/l" };
  const image = { root: "/", entrypoint: ["/init"], binds: [], hidden: [], hasOwnAccounts: true };
  return {
    uid: UID,
    paths: pathsOf(UID, directories),
    pod,
    record: undefined,
    isRecordCurrent: false,
    hasSandbox: false,
    images: new Map([["virt-launcher", image]]),
    missingImages: [],
    containers: pod.spec.containers.map((container) => ({ container, state })),
    hasRemains: true,
    ...change,
  };
}
