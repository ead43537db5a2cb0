// SPDX-License-Identifier: Apache-2.0
// Deaths of each process during a pod's start: the pod starts in the end, without duplicates or leftovers.
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { killAndWait } from "@patchbay/os";
import { eventually } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { PODS, RuntimeMachine, shellPod } from "./machine.ts";
import { MOMENTS, waitForMoment } from "./moments.ts";

const IMAGES_MS = 180_000;
const START_MS = 60_000;
const POD = shellPod("a", "sleep 1000", {
  restartPolicy: "Always",
  terminationGracePeriodSeconds: 1,
});

/** runc processes of the containerd in that directory. */
function runcs(directory: string): readonly number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
        return command[0]?.endsWith("runc") === true && command.join(" ").includes(directory);
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** Kills the runc of that number, counted from now; short-lived ones may be missed. */
async function killRunc(directory: string, number: number): Promise<void> {
  const seen = new Set<number>();
  for (const end = Date.now() + START_MS; Date.now() < end;) {
    for (const pid of runcs(directory)) {
      seen.add(pid);
      if (seen.size < number) continue;
      await killAndWait(pid);
      return;
    }
    await new Promise(setImmediate);
  }
  throw new Error(`only ${String(seen.size)} processes of runc were seen`);
}

describe("during a start", () => {
  let machine: RuntimeMachine;

  beforeAll(async () => {
    machine = await RuntimeMachine.start();
  }, IMAGES_MS);
  afterEach(async () => {
    await machine.clear();
  });
  afterAll(async () => {
    await machine.close();
  });

  /** In the end the pod runs with one sandbox and one container. */
  async function expectOneRun(): Promise<void> {
    const look = async (): Promise<boolean> => {
      const status = (await machine.pod("a"))?.status;
      if (status?.containerStatuses?.[0]?.ready !== true) throw new Error(JSON.stringify(status));
      const sandboxes = await machine.runtime.listSandboxes();
      const containers = await machine.runtime.listContainers();
      expect(sandboxes.map(({ state }) => state)).toEqual(["READY"]);
      expect(containers.filter(({ state }) => state === "RUNNING")).toHaveLength(1);
      expect(await machine.containerd.listShims()).toHaveLength(1);
      return true;
    };
    await eventually(look, { withinMs: START_MS });
  }

  async function expectGone(): Promise<void> {
    await machine.api.delete(`${PODS}/a`);
    expect(await machine.isGone("a")).toBe(true);
    await machine.nothingRemains(20_000);
  }

  test.each([1, 2])(
    "runc is killed, call %i of the start",
    async (number) => {
      const killed = killRunc(machine.containerd.directory, number);
      await machine.create(POD);
      await killed;
      await expectOneRun();
      await expectGone();
    },
    150_000,
  );

  test.each(MOMENTS)(
    "containerd is killed after the %s",
    async (moment) => {
      await machine.create(POD);
      await waitForMoment(machine, moment);
      await machine.containerd.end("SIGKILL");
      await machine.containerd.start();
      await expectOneRun();
      await expectGone();
    },
    150_000,
  );

  test.each(MOMENTS)(
    "the shim is killed after the %s",
    async (moment) => {
      await machine.create(POD);
      await waitForMoment(machine, moment);
      const hasShim = async (): Promise<boolean> =>
        (await machine.containerd.listShims()).length > 0;
      await eventually(hasShim, { withinMs: START_MS });
      for (const pid of await machine.containerd.listShims()) await killAndWait(pid);
      await expectOneRun();
      await expectGone();
    },
    150_000,
  );

  test("finds and removes a control group that runc left beside its shim", async () => {
    const hierarchies = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"]; // of version 1, of version 2
    const root = hierarchies.find((path) => existsSync(path)) ?? "";
    const remaining = join(root, machine.containerd.cgroupParent, "0a".repeat(32));
    await machine.create(POD);
    await expectOneRun();
    mkdirSync(remaining);
    await machine.containerd.end("SIGKILL");
    await machine.containerd.start();
    await eventually(() => !existsSync(remaining), { withinMs: START_MS });
    await expectGone();
  });

  test("a reboot: the pod starts in a new sandbox and continues its restart count", async () => {
    await machine.create(POD);
    await expectOneRun();
    await machine.stopRuntime("SIGKILL");
    await machine.reboot();
    await machine.startRuntime();
    const restarts = async (): Promise<boolean> =>
      ((await machine.pod("a"))?.status?.containerStatuses?.[0]?.restartCount ?? 0) > 0;
    await eventually(restarts, { withinMs: START_MS });
    await expectOneRun();
    await expectGone();
  }, 150_000);
});
