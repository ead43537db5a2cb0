// SPDX-License-Identifier: Apache-2.0
// What a program in a launcher's pod can do to the machine, and the hosts it can reach.
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";
import type { Pod } from "@patchbay/api/kubernetes";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  IMAGES_MS,
  readOut,
  scriptPod,
  startProbedMachine,
  findStartFailure,
  type ProbedMachine,
} from "../containers/pod-machine.ts";

/** Attempts that need a capability of root. */
const ATTEMPTS = ["link", "tap", "raw socket", "mount", "device", "namespace", "sysctl"];

let probed: ProbedMachine;

beforeAll(async () => {
  probed = await startProbedMachine();
}, IMAGES_MS);
afterEach(() => probed.machine.clear());
afterAll(() => probed.close());

/** A launcher's pod that runs the program, with its device. */
function attackingPod(args: readonly string[], change: Partial<Pod["spec"]> = {}): object {
  return scriptPod("a", "", {
    containers: [
      {
        name: "compute",
        image: "attacker",
        imagePullPolicy: "Never",
        command: ["/program", "/out/said", ...args],
        resources: { limits: { memory: "512Mi", "devices.kubevirt.io/tun": "1" } },
        volumeMounts: [{ name: "out", mountPath: "/out" }],
      },
    ],
    ...change,
  });
}

async function sayInPod(...args: readonly string[]): Promise<readonly string[]> {
  await probed.machine.create(attackingPod(args));
  return (await readOut(probed.machine, "a", "said")).trimEnd().split("\n");
}

/** What works for root in its own namespaces. */
function worksForRoot(): readonly string[] {
  const output = join(probed.directory, "said");
  execFileSync("unshare", ["-mn", join(probed.directory, "program"), output]);
  return readFileSync(output, "utf8").trimEnd().split("\n");
}

test("attack 23: a launcher cannot create links, taps, raw sockets, mounts or devices, enter namespaces or set sysctls", async () => {
  // Ensures that no attempt fails for another reason.
  expect(worksForRoot()).toEqual(expect.arrayContaining(ATTEMPTS));
  const works = await sayInPod();
  expect(works.filter((line) => ATTEMPTS.includes(line))).toEqual([]);
  expect(works).toContain("done");
});

test("attack 37: the API server is unreachable from the pod network", async () => {
  const port = Number(new URL(probed.machine.api.server.url).port);
  const connection = createConnection(port, "127.0.0.1");
  await once(connection, "connect");
  connection.destroy();
  expect(await sayInPod(String(port), probed.machine.gateway, "127.0.0.1")).toEqual(["done"]);
});

test("attack 49: rejects a pod that requests host namespaces, with a message", async () => {
  await probed.machine.create(
    attackingPod([], { hostNetwork: true, hostPID: true, hostIPC: true }),
  );
  const text = await findStartFailure(probed.machine, "a");
  for (const field of ["hostNetwork", "hostPID", "hostIPC"]) expect(text).toContain(field);
});

test("attack 49: rejects a privileged pod, with a message", async () => {
  const pod = attackingPod([]) as Pod;
  const securityContext = {
    privileged: true,
    capabilities: { add: ["NET_ADMIN", "SYS_ADMIN", "NET_RAW", "MKNOD"] },
  };
  const containers = pod.spec.containers.map((one) => ({ ...one, securityContext }));
  await probed.machine.create({ ...pod, spec: { ...pod.spec, containers } });
  const text = await findStartFailure(probed.machine, "a");
  for (const field of ["privileged", "capabilities.add"]) expect(text).toContain(field);
});

test("attack 49: rejects a hostPath volume, with a message", async () => {
  const volumes = [
    { name: "out", emptyDir: {} },
    { name: "host", hostPath: { path: "/" } },
  ];
  await probed.machine.create(attackingPod([], { volumes }));
  expect(await findStartFailure(probed.machine, "a")).toContain("hostPath");
});
