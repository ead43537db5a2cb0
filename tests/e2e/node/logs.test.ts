// SPDX-License-Identifier: Apache-2.0
// Debugging a pod: its log, exec, and its probes.
import { names } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CHANGE_MS, machine } from "../machine.ts";

const NAME = "teller";
const FILE = "/tmp/ready";

function probe(command: readonly string[]) {
  return { exec: { command }, periodSeconds: 1, failureThreshold: 1 };
}

beforeAll(() => {
  machine.apply({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: NAME },
    spec: {
      terminationGracePeriodSeconds: 1,
      securityContext: { runAsUser: 107, runAsGroup: 107, fsGroup: 107 },
      volumes: [{ name: "tmp", emptyDir: {} }],
      containers: [
        {
          name: "main",
          image: names.LAUNCHER_IMAGE,
          command: ["sh", "-c", `test -e ${FILE} && echo again || echo first; exec sleep 600`],
          volumeMounts: [{ name: "tmp", mountPath: "/tmp" }],
          readinessProbe: probe(["test", "-e", FILE]),
          livenessProbe: probe(["sh", "-c", "! rm /tmp/sick"]),
        },
      ],
    },
  });
});

afterAll(() => {
  machine.startDelete("pod", NAME, 1);
});

function status(): NonNullable<Pod["status"]> {
  return machine.find("pod", NAME)?.status ?? {};
}

function isReady(): boolean {
  return status().containerStatuses?.[0]?.ready === true;
}

test("a container's log is readable, exec works, and a probe sets its readiness", async () => {
  await eventually(() => status().phase === "Running", { withinMs: CHANGE_MS });
  await eventually(() => machine.kubectl("logs", NAME) === "first\n", {
    withinMs: CHANGE_MS,
  });
  expect(isReady()).toBe(false);
  expect(machine.kubectl("exec", NAME, "--", "id", "-u")).toBe("107\n");
  machine.kubectl("exec", NAME, "--", "touch", FILE);
  await eventually(isReady, { withinMs: CHANGE_MS });
});

test("an unhealthy container restarts and its previous log is available", async () => {
  machine.kubectl("exec", NAME, "--", "touch", "/tmp/sick");
  await eventually(() => (status().containerStatuses?.[0]?.restartCount ?? 0) > 0, {
    withinMs: CHANGE_MS,
  });
  await eventually(() => machine.kubectl("logs", NAME) === "again\n", { withinMs: CHANGE_MS });
  expect(machine.kubectl("logs", "--previous", NAME)).toBe("first\n");
  const isReported = (): boolean =>
    machine.events().some(({ message }) => message.includes("Liveness probe failed"));
  await eventually(isReported, { withinMs: CHANGE_MS });
});

test("logs and exec also work with a VM's launcher", () => {
  const launcher = machine.findPod("alpha")?.metadata.name ?? "";
  expect(machine.kubectl("exec", launcher, "--", "cat", "/proc/1/comm")).toBe("virt-launcher\n");
  expect(machine.try(["kubectl", "logs", launcher]).code).toBe(0);
});
