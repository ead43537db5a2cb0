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

    test("a launcher is opened with its namespace, by several at once", async () => {
      const inode = await bench.start();
      const both = [await launchers.open(pod), await launchers.open(pod)];
      expect(both.map(({ netns }) => netns.inode)).toEqual([inode, inode]);
      for (const launcher of both) launcher.close();
    });

    test("the end of its process is told, and it is closed more than once without harm", async () => {
      await bench.start();
      const launcher = await launchers.open(pod);
      await bench.kill();
      await expect(launcher.ended).resolves.toBeUndefined();
      launcher.close();
      launcher.close();
    });

    test("a launcher at whose socket nobody listens any more is told from one without", async () => {
      await bench.start();
      await bench.kill();
      await expect(launchers.open(pod)).rejects.toMatchObject({ code: "LAUNCHER_NOT_LISTENING" });
    });

    test.each([
      { name: "namespace", other: { namespace: "tenant" } },
      { name: "name", other: { name: "virt-launcher-other" } },
    ])("a pod of another $name is refused the launcher of that uid", async ({ other }) => {
      await bench.start();
      await expect(launchers.open({ ...pod, ...other })).rejects.toMatchObject({
        code: "OS_PATH_REFUSED",
      });
    });

    test("a watch tells when the launcher comes", async () => {
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
