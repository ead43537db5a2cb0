// SPDX-License-Identifier: Apache-2.0
// A claim outlives its pods and disappears when it is deleted.
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { names } from "@patchbay/api";
import type { PersistentVolume } from "@patchbay/api/kubernetes";
import { eventually } from "@patchbay/support";
import { afterAll, expect, test } from "vitest";
import { CHANGE_MS, machine } from "../machine.ts";

const CLAIM = "kept";
const TIMEOUT = { withinMs: CHANGE_MS };

afterAll(() => {
  machine.deleteIfPresent("pvc", CLAIM);
});

/** Runs a shell script to its end in a pod with the claim at /v. */
async function run(name: string, script: string): Promise<void> {
  machine.apply({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: {
      restartPolicy: "Never",
      securityContext: { runAsUser: 107, runAsGroup: 107, fsGroup: 107 },
      volumes: [{ name: "v", persistentVolumeClaim: { claimName: CLAIM } }],
      containers: [
        {
          name: "main",
          image: names.LAUNCHER_IMAGE,
          command: ["sh", "-c", script],
          volumeMounts: [{ name: "v", mountPath: "/v" }],
        },
      ],
    },
  });
  await eventually(() => machine.findPodPhase(name) === "Succeeded", TIMEOUT);
  machine.delete("pod", name);
}

function devices(): readonly string[] {
  const argv = ["--list", "--noheadings", "--raw", "--output", "BACK-FILE"];
  const files = execFileSync("losetup", argv, { encoding: "utf8" }).split("\n");
  return files.filter((file) => file.startsWith(join(machine.dataDir, "claims")));
}

function stored(): readonly string[] {
  return readdirSync(join(machine.dataDir, "claims"));
}

test("a claim without a class retains what pods write and leaves nothing when deleted", async () => {
  const before = stored();
  machine.apply({
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: CLAIM },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "16Mi" } } },
  });
  const isReported = (): boolean =>
    machine.events().some(({ message }) => message.includes("waiting for first consumer"));
  await eventually(isReported, TIMEOUT);
  await run("writer", "echo kept > /v/file");
  await run("reader", 'test "$(cat /v/file)" = kept');
  const { spec, status } = machine.find("pvc", CLAIM) ?? {};
  expect({ class: spec?.storageClassName, ...status }).toEqual({
    class: "local",
    phase: "Bound",
    accessModes: ["ReadWriteOnce"],
    capacity: { storage: "16Mi" },
  });
  await eventually(() => devices().length === 0, TIMEOUT);
  machine.delete("pvc", CLAIM);
  const isBound = ({ spec }: PersistentVolume): boolean => spec.claimRef?.name === CLAIM;
  await eventually(() => !machine.list("pv").some(isBound), TIMEOUT);
  expect(stored()).toEqual(before);
});
