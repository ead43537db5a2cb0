// SPDX-License-Identifier: Apache-2.0
// The fake of default routes keeps the contract.
import { createFakeDefaultRoutes } from "../fakes/default-routes.ts";
import { describeDefaultRoutesContract } from "./default-routes.ts";

const NETNS = { fd: -1, inode: "1" };

describeDefaultRoutesContract("in memory", () => {
  const links = new Set(["one", "two"]);
  const routes = createFakeDefaultRoutes((_inode, link) => links.has(link));
  for (const [version, gateway] of [
    [4, "10.9.1.1"],
    [6, "fd09:1::1"],
  ] as const) {
    routes.put(NETNS.inode, { version, link: "one", gateway });
  }
  return Promise.resolve({
    routes,
    netns: NETNS,
    deleteLink: (link) => {
      links.delete(link);
      routes.takeLink(NETNS.inode, link);
    },
    close: () => Promise.resolve(),
  });
});
