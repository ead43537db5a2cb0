// SPDX-License-Identifier: Apache-2.0
// A claim with an image's disk, filled by a pod as a user would.
import { names } from "@patchbay/api";
import { eventually } from "./eventually.ts";
import type { Machine } from "./machine/machine.ts";

/** Copying a disk of 1 GiB takes seconds, on a busy machine a minute. */
const FILL_MS = 300_000;
/** The launchers' user, who opens the disk. */
const USER = 107;

export interface FilledClaim {
  readonly claim: string;
  /** Its disk is `/disk/disk.qcow2`, as `patchbay image add` stores it. */
  readonly image: string;
}

function claimManifest(name: string): unknown {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name, namespace: "default" },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "2Gi" } } },
  };
}

/** Has the launcher image's tools. */
function podManifest(name: string, { claim, image }: FilledClaim): unknown {
  const container = {
    name: "fill",
    image: names.LAUNCHER_IMAGE,
    command: ["qemu-img", "convert", "-O", "raw", "/image/disk/disk.qcow2", "/claim/disk.img"],
    volumeMounts: [
      { name: "image", mountPath: "/image" },
      { name: "claim", mountPath: "/claim" },
    ],
  };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default" },
    spec: {
      restartPolicy: "Never",
      securityContext: { runAsUser: USER, runAsGroup: USER, fsGroup: USER, runAsNonRoot: true },
      containers: [container],
      volumes: [
        { name: "image", image: { reference: image, pullPolicy: "IfNotPresent" } },
        { name: "claim", persistentVolumeClaim: { claimName: claim } },
      ],
    },
  };
}

/** Creates the claim, writes the image's disk into it as `disk.img`, and resolves when done. */
export async function fillClaim(machine: Machine, filled: FilledClaim): Promise<void> {
  const pod = `fill-${filled.claim}`;
  machine.apply(claimManifest(filled.claim), podManifest(pod, filled));
  const hasEnded = (): boolean => machine.findPodPhase(pod) === "Succeeded";
  await eventually(hasEnded, { withinMs: FILL_MS });
  machine.delete("pod", pod);
}
