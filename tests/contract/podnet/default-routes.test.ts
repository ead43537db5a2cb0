// SPDX-License-Identifier: Apache-2.0
// Default routes move to another NIC in the kernel and are restored unchanged.
import { createNetlink } from "@patchbay/os";
import { createDefaultRoutes } from "@patchbay/podnet";
import type { NetnsHandle } from "@patchbay/core/interfaces";
import { describeDefaultRoutesContract } from "@patchbay/podnet/testing";
import { run } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Namespaces } from "./links.ts";

const routes = createDefaultRoutes(createNetlink());

type Ip = (...text: readonly string[]) => string;

/** The NICs `one` and `two`, whose peers are up in the same namespace. */
function addNics(name: string): Ip {
  const ip: Ip = (...text) => run("ip", "-n", name, ...text);
  for (const [link, number] of [
    ["one", "1"],
    ["two", "2"],
  ] as const) {
    ip("link", "add", link, "type", "veth", "peer", "name", `${link}x`);
    for (const end of [link, `${link}x`]) ip("link", "set", end, "addrgenmode", "none", "up");
    ip("addr", "add", `10.9.${number}.2/24`, "dev", link);
    ip("addr", "add", `fd09:${number}::2/64`, "dev", link, "nodad");
  }
  return ip;
}

describeDefaultRoutesContract("of the kernel", () => {
  const namespaces = new Namespaces();
  const name = namespaces.add("routed");
  const ip = addNics(name);
  ip("route", "add", "default", "via", "10.9.1.1");
  ip("-6", "route", "add", "default", "via", "fd09:1::1");
  return Promise.resolve({
    routes,
    netns: namespaces.open(name),
    deleteLink: (link) => {
      ip("link", "delete", link);
    },
    close: () => {
      namespaces.close();
      return Promise.resolve();
    },
  });
});

describe("restores a route with all its attributes", () => {
  const namespaces = new Namespaces();
  let netns: NetnsHandle;
  let ip: Ip;
  beforeAll(() => {
    const name = namespaces.add("odd");
    ip = addNics(name);
    netns = namespaces.open(name);
  });
  afterAll(() => {
    namespaces.close();
  });

  test.each([
    {
      name: "with metric, MTU and source address",
      family: "-4",
      words: "via 10.9.1.1 dev one metric 7 mtu 1400 src 10.9.1.2",
    },
    {
      name: "with a gateway that is only reachable through its NIC",
      family: "-4",
      words: "via 169.254.1.1 dev one onlink",
    },
    { name: "without a gateway", family: "-4", words: "dev one scope link" },
    {
      name: "over two NICs",
      family: "-4",
      words: "nexthop via 10.9.1.1 dev one nexthop via 10.9.2.1 dev two",
    },
    {
      name: "with a router preference",
      family: "-6",
      words: "via fd09:1::1 dev one metric 9 pref high mtu 1400",
    },
  ])("$name", async ({ family, words: text }) => {
    ip(family, "route", "add", "default", ...text.split(" "));
    const before = ip(family, "route", "show", "default");
    const [route, ...others] = await routes.list(netns);
    expect(others).toEqual([]);
    if (route === undefined) throw new Error("there is no default route");
    await routes.remove(netns, route);
    expect(ip(family, "route", "show", "default")).toBe("");
    await routes.restore(netns, route);
    expect(ip(family, "route", "show", "default")).toBe(before);
    await routes.remove(netns, route);
  });

  test("ignores unreachable routes and other tables", async () => {
    ip("route", "add", "unreachable", "default", "metric", "99");
    ip("route", "add", "default", "via", "10.9.1.1", "table", "100");
    expect(await routes.list(netns)).toEqual([]);
    ip("route", "flush", "table", "100");
  });

  test("rejects an unreachable gateway with the kernel's message", async () => {
    await expect(routes.add(netns, { link: "two", gateway: "192.0.2.1" })).rejects.toThrow(
      /route add default via 192\.0\.2\.1 dev two.*ENETUNREACH|EHOSTUNREACH/,
    );
  });
});
