// SPDX-License-Identifier: Apache-2.0
// Contract of Launchers, for the fake and for a machine.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { LauncherPod, Launchers } from "@patchbay/core/interfaces";

/** A node with one pod, whose launcher does not run yet. */
export interface LaunchersBench {
  readonly launchers: Launchers;
  readonly pod: LauncherPod;
  /** Starts the launcher; resolves with the inode of its network namespace. */
  start(): Promise<string>;
  /** Kills the launcher's process; its socket remains. */
  kill(): Promise<void>;
  close(): Promise<void>;
}

/** Defines tests named `Launchers: NAME`; each creates its own bench. */
export function describeLaunchersContract(name: string, make: () => Promise<LaunchersBench>): void {
  describe(`Launchers: ${name}`, () => {
    let bench: LaunchersBench;
    let launchers: Launchers;
    let pod: LauncherPod;
    beforeEach(async () => {
      bench = await make();
      ({ launchers, pod } = bench);
    });
    afterEach(async () => {
      await bench.close();
    });

    test("a launcher that does not run yet is unreachable", async () => {
      await expect(launchers.open(pod)).rejects.toMatchObject({ code: "LAUNCHER_UNREACHABLE" });
    });

    test("opens a launcher with its namespace, several times concurrently", async () => {
      const inode = await bench.start();
      const both = [await launchers.open(pod), await launchers.open(pod)];
      expect(both.map(({ netns }) => netns.inode)).toEqual([inode, inode]);
      for (const launcher of both) launcher.close();
    });

    test("reports the end of its process; closing it repeatedly succeeds", async () => {
      await bench.start();
      const launcher = await launchers.open(pod);
      await bench.kill();
      await expect(launcher.ended).resolves.toBeUndefined();
      launcher.close();
      launcher.close();
    });

    test("reports a launcher whose socket has no listener", async () => {
      await bench.start();
      await bench.kill();
      await expect(launchers.open(pod)).rejects.toMatchObject({ code: "LAUNCHER_NOT_LISTENING" });
    });

    test.each([
      { name: "namespace", other: { namespace: "tenant" } },
      { name: "name", other: { name: "virt-launcher-other" } },
    ])("rejects the launcher of a uid for a pod of another $name", async ({ other }) => {
      await bench.start();
      await expect(launchers.open({ ...pod, ...other })).rejects.toMatchObject({
        code: "OS_PATH_REFUSED",
      });
    });

    test("a watch reports when the launcher appears", async () => {
      const { promise, resolve } = Promise.withResolvers<undefined>();
      const abort = new AbortController();
      const changed = (): void => {
        resolve(undefined);
      };
      launchers.watch(pod, changed, abort.signal);
      await bench.start();
      await promise;
      abort.abort();
      const launcher = await launchers.open(pod);
      launcher.close();
    });
  });
}
