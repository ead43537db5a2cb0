// SPDX-License-Identifier: Apache-2.0
// Borrowed host NICs return unchanged from a pod, on a real kernel. The host is the test's own namespace.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles, createNetlink } from "@patchbay/os";
import { createNodeNics } from "@patchbay/podnet";
import {
  describeNodeNicsContract,
  BORROWED_ADDRESSES,
  BORROWED_MAC,
  BORROWED_PATH,
  BORROWED_PCI,
  type NodeNicsScene,
} from "@patchbay/podnet/testing";
import { run } from "@patchbay/support";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Namespaces } from "./links.ts";

interface SeenLink {
  readonly address: string;
  readonly mtu: number;
  readonly flags: readonly string[];
}
interface SeenAddresses {
  readonly addr_info: readonly { local: string; prefixlen: number; scope: string }[];
}
interface SeenRoute {
  readonly dst: string;
  readonly gateway?: string;
  readonly dev: string;
  readonly metric?: number;
  readonly protocol: string;
}

/** Metrics that the kernel sets by default. */
const USUAL_METRICS = [0, 1024];

function routesOf(name: string, link: string): string[] {
  return ["-4", "-6"]
    .flatMap((family) => {
      const text = run("ip", "-n", name, "-j", family, "route", "show", "dev", link);
      return JSON.parse(text) as readonly SeenRoute[];
    })
    .filter(({ protocol }) => protocol !== "kernel")
    .map(({ dst, gateway, metric = 0 }) =>
      [
        dst,
        ...(gateway === undefined ? [] : ["via", gateway]),
        "dev",
        link,
        ...(USUAL_METRICS.includes(metric) ? [] : ["metric", String(metric)]),
      ].join(" "),
    )
    .toSorted();
}

function seeLink(name: string, link: string): typeof BORROWED_ADDRESSES | undefined {
  let text: string;
  try {
    text = run("ip", "-n", name, "-j", "addr", "show", "dev", link);
  } catch {
    return undefined;
  }
  const [observed] = JSON.parse(text) as readonly (SeenLink & SeenAddresses)[];
  if (observed === undefined) return undefined;
  return {
    mac: observed.address,
    mtu: observed.mtu,
    up: observed.flags.includes("UP"),
    addresses: observed.addr_info
      .filter(({ scope }) => scope !== "link")
      .map(({ local, prefixlen }) => `${local}/${String(prefixlen)}`)
      .toSorted(),
    routes: routesOf(name, link),
  };
}

/** A host with the contract's NICs, and files that mark `card0` as virtio. */
function makeHost(namespaces: Namespaces, root: string): string {
  const host = namespaces.add("nodehost");
  const ip = (...words: readonly string[]): string => run("ip", "-n", host, ...words);
  for (const [card, mac] of [
    ["card0", BORROWED_MAC],
    ["card1", "02:00:00:00:9c:02"],
  ] as const) {
    ip("link", "add", card, "address", mac, "type", "veth", "peer", "name", `${card}x`);
    for (const end of [card, `${card}x`]) ip("link", "set", end, "up");
  }
  ip("link", "set", "card0", "mtu", "1400");
  for (const address of BORROWED_ADDRESSES.addresses) {
    ip("addr", "add", address, "dev", "card0", ...(address.includes(":") ? ["nodad"] : []));
  }
  for (const route of BORROWED_ADDRESSES.routes) {
    ip(route.includes("::") ? "-6" : "-4", "route", "add", ...route.split(" "));
  }
  for (const device of [`/sys/bus/pci/devices/${BORROWED_PCI}/virtio0`, BORROWED_PATH]) {
    mkdirSync(join(root, device, "net/card0"), { recursive: true });
  }
  return host;
}

function makeScene(): NodeNicsScene {
  const namespaces = new Namespaces();
  const root = mkdtempSync(join(tmpdir(), "patchbay-nics-"));
  const close = (): Promise<void> => {
    namespaces.close();
    rmSync(root, { recursive: true });
    return Promise.resolve();
  };
  try {
    return sceneIn(namespaces, root, close);
  } catch (error) {
    void close();
    throw error;
  }
}

function sceneIn(namespaces: Namespaces, root: string, close: () => Promise<void>): NodeNicsScene {
  const host = makeHost(namespaces, root);
  const pod = namespaces.add("nodepod");
  const ip = (name: string, words: string): string => run("ip", "-n", name, ...words.split(" "));
  return {
    nics: createNodeNics({ netlink: createNetlink(), files: createFiles(), root }),
    host: namespaces.open(host),
    pod: namespaces.open(pod),
    lend: () => {
      ip(host, `link set card0 down alias card0`);
      ip(host, `link set card0 netns ${pod}`);
      ip(pod, "link set card0 name net1 address 02:00:00:00:9c:99 mtu 1300");
      ip(pod, "link set net1 up");
    },
    restore: (name) => {
      ip(pod, "link set net1 down");
      ip(pod, `link set net1 name ${name}`);
      ip(pod, `link set ${name} netns ${host}`);
    },
    readSettings: (name) => seeLink(host, name),
    listPodNics: () => {
      const links = JSON.parse(run("ip", "-n", pod, "-j", "link")) as { ifname: string }[];
      return links.map(({ ifname }) => ifname).filter((name) => name !== "lo");
    },
    close,
  };
}

describeNodeNicsContract("of the kernel", () => Promise.resolve(makeScene()));

describe("restores a NIC with all its settings", () => {
  let scene: NodeNicsScene;
  beforeEach(() => {
    scene = makeScene();
  });
  afterEach(() => scene.close());
  const hostPath = (): string => `/proc/${String(process.pid)}/fd/${String(scene.host.fd)}`;
  const ip = (...words: readonly string[]): string =>
    run("nsenter", `--net=${hostPath()}`, "ip", ...words);
  /** iproute2's output for addresses and routes, without elapsed seconds and automatic entries. */
  const look = (): readonly string[] =>
    [
      ip("addr", "show", "dev", "card0").replaceAll(
        /\d{1,9}sec|^\d{1,9}: |@if\d{1,9}|@card0x/gm,
        "",
      ),
      ip("-4", "route", "show", "table", "main"),
      ip("-6", "route", "show", "table", "main").replaceAll(/expires \d{1,9}sec/g, ""),
    ]
      .flatMap((text) => text.split("\n"))
      .filter((line) => !line.includes("fe80::"));

  test.each([
    {
      name: "a peer and a label",
      words: "addr add 10.9.7.1 peer 10.9.7.9/32 label card0:7 dev card0",
    },
    {
      name: "a broadcast, and no route",
      words: "addr add 10.9.8.1/24 broadcast 10.9.8.255 noprefixroute dev card0",
    },
    {
      name: "an address lifetime",
      words: "addr add fd09:8::1/64 valid_lft 9000 preferred_lft 8000 nodad dev card0",
    },
    {
      name: "a route with all attributes",
      words: "route add 198.51.100.0/24 via 10.9.1.9 dev card0 metric 5 mtu 1300 src 10.9.1.3",
    },
    {
      name: "a gateway that only it knows",
      words: "route add 198.51.100.0/24 via 169.254.1.1 dev card0 onlink",
    },
    {
      name: "a multipath route over two NICs",
      words:
        "route add 198.51.100.0/24 nexthop via 10.9.1.9 dev card0 nexthop via 169.254.1.1 dev card1 onlink",
    },
  ])("$name", async ({ words }) => {
    ip(...words.split(" "));
    const before = look();
    const nic = await scene.nics.find(scene.host, { by: "name", name: "card0" });
    if (nic === undefined) throw new Error("there is no card0");
    scene.lend();
    scene.restore("dev7");
    expect(await scene.nics.restore(scene.host, nic)).toEqual({
      kind: "there",
      rejectedSettings: [],
    });
    expect(look()).toEqual(before);
  });

  test("except settings that the kernel refuses, which are reported", async () => {
    const nic = await scene.nics.find(scene.host, { by: "name", name: "card0" });
    if (nic === undefined) throw new Error("there is no card0");
    scene.lend();
    scene.restore("dev7");
    ip("link", "set", "card1", "down");
    ip("link", "set", "card1", "name", "card0");
    const restored = await scene.nics.restore(scene.host, nic);
    expect(restored).toEqual({
      kind: "there",
      rejectedSettings: [expect.stringMatching(/^name card0: .*EEXIST/)],
    });
    expect(scene.readSettings("dev7")).toMatchObject({
      mac: BORROWED_MAC,
      addresses: BORROWED_ADDRESSES.addresses,
    });
  });
});
