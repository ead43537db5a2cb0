// SPDX-License-Identifier: Apache-2.0
// Contract of DefaultRoutes.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { DefaultRoute, DefaultRoutes, NetnsHandle } from "@patchbay/core/interfaces";

/**
 * A namespace with two NICs that are up: `one` with 10.9.1.2/24 and fd09:1::2/64, and `two` with 10.9.2.2/24 and
 * fd09:2::2/64. The default routes use `one`, through 10.9.1.1 and fd09:1::1.
 */
export interface DefaultRoutesScene {
  readonly routes: DefaultRoutes;
  readonly netns: NetnsHandle;
  deleteLink(link: string): void;
  close(): Promise<void>;
}

/** Calls twice, because all operations are idempotent. */
async function twice(act: () => Promise<void>): Promise<void> {
  await act();
  await act();
}

/** Defines the tests, each with a new scene. */
export function describeDefaultRoutesContract(
  kind: string,
  make: () => Promise<DefaultRoutesScene>,
): void {
  describe(`default routes ${kind}`, () => {
    let scene: DefaultRoutesScene;
    beforeEach(async () => {
      scene = await make();
    });
    afterEach(() => scene.close());

    const list = (): Promise<readonly DefaultRoute[]> => scene.routes.list(scene.netns);
    async function observe(): Promise<readonly string[]> {
      return (await list()).map(({ gateway = "", link }) => `${gateway} ${link}`);
    }
    async function first(version: 4 | 6): Promise<DefaultRoute> {
      const route = (await list()).find((each) => each.version === version);
      if (route === undefined) throw new Error("there is no default route");
      return route;
    }

    test("are listed for both families", async () => {
      expect(await observe()).toEqual(["10.9.1.1 one", "fd09:1::1 one"]);
    });

    test.each([
      { version: 4, gateway: "10.9.2.1", want: ["10.9.2.1 two", "fd09:1::1 one"] },
      { version: 6, gateway: "fd09:2::1", want: ["10.9.1.1 one", "fd09:2::1 two"] },
    ] as const)("of family $version move to another NIC and are restored", async (row) => {
      const before = await first(row.version);
      const target = { link: "two", gateway: row.gateway };
      await twice(() => scene.routes.remove(scene.netns, before));
      await twice(() => scene.routes.add(scene.netns, target));
      expect((await observe()).toSorted()).toEqual(row.want);
      await scene.routes.remove(scene.netns, await first(row.version));
      await twice(() => scene.routes.restore(scene.netns, before));
      expect((await observe()).toSorted()).toEqual(["10.9.1.1 one", "fd09:1::1 one"]);
      expect(await first(row.version)).toEqual(before);
    });

    test("are deleted with their NIC, and cannot be restored without it", async () => {
      const before = await first(4);
      scene.deleteLink("one");
      expect(await observe()).toEqual([]);
      await expect(scene.routes.restore(scene.netns, before)).rejects.toMatchObject({
        code: "PODNET_FAILED",
      });
    });

    test("cannot use a missing NIC", async () => {
      const route = { link: "three", gateway: "10.9.2.1" };
      await expect(scene.routes.add(scene.netns, route)).rejects.toMatchObject({
        code: "PODNET_LINK_MISSING",
      });
    });
  });
}
