// SPDX-License-Identifier: Apache-2.0
// The kernel reports every fault of links, without an event flood.
import { closeSync, openSync, readdirSync } from "node:fs";
import { createLinkWatch } from "@patchbay/os";
import type { LinkChanges, NetnsHandle } from "@patchbay/core/interfaces";
import { describeLinkWatchContract } from "@patchbay/podnet/testing";
import { eventually, run } from "@patchbay/support";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { addHost, addNic, guestWiring, makeNetwork, Namespaces } from "./links.ts";

describeLinkWatchContract("on the kernel", () => {
  const namespaces = new Namespaces();
  const names = new Map<NetnsHandle, string>();
  const open = (role: string): NetnsHandle => {
    const name = namespaces.add(role);
    run("ip", "-n", name, "link", "add", "one", "index", "11", "type", "bridge");
    const netns = namespaces.open(name);
    names.set(netns, name);
    return netns;
  };
  const ip = (netns: NetnsHandle, ...text: readonly string[]): void => {
    run("ip", "-n", names.get(netns) ?? "", ...text);
  };
  return Promise.resolve({
    links: createLinkWatch(),
    netns: open("first"),
    other: open("second"),
    add: (netns, { name, index }) => {
      ip(netns, "link", "add", name, "index", String(index), "type", "bridge");
    },
    setMtu: (netns, name, mtu) => {
      ip(netns, "link", "set", name, "mtu", String(mtu));
    },
    remove: (netns, name) => {
      ip(netns, "link", "del", name);
    },
    close: () => {
      namespaces.close();
      return Promise.resolve();
    },
  });
});

const { podInterfaceName: nic, bridgeName: bridge, tapName: tap, mac } = guestWiring(1);
const OTHER_MAC = "02:00:00:00:5e:99";

/** ip's output for a link. */
interface Shown {
  readonly ifindex: number;
  readonly operstate: string;
}

/** A wired pod whose links are watched. */
class Watched {
  readonly #namespaces = new Namespaces();
  readonly #stop = new AbortController();
  readonly told: LinkChanges[] = [];
  readonly pod: string;
  readonly netns: NetnsHandle;

  constructor() {
    const host = addHost(this.#namespaces);
    this.pod = this.#namespaces.add("pod1");
    addNic({ host, pod: this.pod }, { name: nic, kind: "veth", mac });
    run("ip", "-n", this.pod, "link", "set", nic, "up");
    this.netns = this.#namespaces.open(this.pod);
  }

  async watch(): Promise<void> {
    await makeNetwork().wireTap(this.netns, guestWiring(1));
    await this.#quiet();
    createLinkWatch().watch(this.netns, (links) => this.told.push(links), this.#stop.signal);
  }

  /** The kernel may report a new carrier up to a second later, with the state. Source: net/core/link_watch.c. */
  async #quiet(): Promise<void> {
    const isUp = (name: string): boolean => this.#look(name)?.operstate === "UP";
    await eventually(() => [nic, bridge].every(isUp), { withinMs: 5000 });
  }

  ip(...text: readonly string[]): void {
    run("ip", "-n", this.pod, ...text);
  }

  #look(name: string): Shown | undefined {
    // In ip's notation.
    return (JSON.parse(run("ip", "-n", this.pod, "-j", "link", "show", name)) as Shown[])[0];
  }

  indexOf(name: string): number {
    return this.#look(name)?.ifindex ?? 0;
  }

  isTold(index: number): boolean {
    return this.told.some(
      (links) => links !== "unknown" && links.some((link) => link.index === index),
    );
  }

  close(): void {
    this.#stop.abort();
    this.#namespaces.close();
  }
}

describe("reports within a second when, for a wired NIC,", () => {
  let watched: Watched;
  beforeEach(async () => {
    watched = new Watched();
    await watched.watch();
  });
  afterEach(() => {
    watched.close();
  });

  test.each<{ name: string; link: string; change: (pod: Watched) => void }>([
    {
      name: "the tap was deleted",
      link: tap,
      change: (pod) => {
        pod.ip("link", "del", tap);
      },
    },
    {
      name: "the bridge was deleted",
      link: bridge,
      change: (pod) => {
        pod.ip("link", "del", bridge);
      },
    },
    {
      name: "the NIC was deleted",
      link: nic,
      change: (pod) => {
        pod.ip("link", "del", nic);
      },
    },
    {
      name: "the tap was taken out of its bridge",
      link: tap,
      change: (pod) => {
        pod.ip("link", "set", tap, "nomaster");
      },
    },
    {
      name: "the tap was moved to another bridge",
      link: tap,
      change: (pod) => {
        pod.ip("link", "add", "br9", "type", "bridge");
        pod.ip("link", "set", tap, "master", "br9");
      },
    },
    {
      name: "learning was switched on at the tap",
      link: tap,
      change: (pod) => {
        pod.ip("link", "set", tap, "type", "bridge_slave", "learning", "on");
      },
    },
    {
      name: "the bridge tool enabled learning at the NIC",
      link: nic,
      change: (pod) => {
        run("bridge", "-n", pod.pod, "link", "set", "dev", nic, "learning", "on");
      },
    },
    {
      name: "an address was added to the NIC again",
      link: nic,
      change: (pod) => {
        pod.ip("addr", "add", "10.9.0.77/24", "dev", nic);
      },
    },
    {
      name: "an IPv6 address was added to the NIC",
      link: nic,
      change: (pod) => {
        pod.ip("addr", "add", "fd09::77/64", "dev", nic);
      },
    },
    {
      name: "the NIC went down",
      link: nic,
      change: (pod) => {
        pod.ip("link", "set", nic, "down");
      },
    },
    {
      name: "the NIC has another MAC",
      link: nic,
      change: (pod) => {
        pod.ip("link", "set", nic, "address", OTHER_MAC);
      },
    },
    {
      name: "the NIC has another name",
      link: nic,
      change: (pod) => {
        pod.ip("link", "set", nic, "down");
        pod.ip("link", "set", nic, "name", "other");
      },
    },
    {
      name: "the bridge answers ARP",
      link: bridge,
      change: (pod) => {
        pod.ip("link", "set", bridge, "arp", "on");
      },
    },
    {
      name: "the bridge snoops multicast",
      link: bridge,
      change: (pod) => {
        pod.ip("link", "set", bridge, "type", "bridge", "mcast_snooping", "1");
      },
    },
    {
      name: "the forwarding entry for the guest is missing",
      link: tap,
      change: (pod) => {
        run("bridge", "-n", pod.pod, "fdb", "del", mac, "dev", tap, "master");
      },
    },
    {
      name: "the forwarding entry for the guest points to the NIC",
      link: nic,
      change: (pod) => {
        run("bridge", "-n", pod.pod, "fdb", "replace", mac, "dev", nic, "master", "static");
      },
    },
  ])("$name", async ({ link, change }) => {
    const index = watched.indexOf(link);
    change(watched);
    await eventually(() => watched.isTold(index), { withinMs: 1000 });
  });

  test("ignores neighbor changes that the guest's traffic causes", async () => {
    // Uses the loopback, which has no delayed events: a carrier's may follow a second later.
    watched.ip("neigh", "add", "10.9.0.9", "lladdr", OTHER_MAC, "dev", "lo");
    watched.ip("link", "add", "later", "type", "bridge");
    const later = watched.indexOf("later");
    await eventually(() => watched.isTold(later), { withinMs: 1000 });
    expect(watched.isTold(watched.indexOf("lo"))).toBe(false);
  });

  test("reports an overflow as a change of anything and continues", async () => {
    const script = [1400, 1401].map((mtu) => `link set lo mtu ${String(mtu)}\n`).join("");
    run("sh", "-c", `printf '${script.repeat(2000)}' | ip -n ${watched.pod} -batch -`);
    await eventually(() => watched.told.includes("unknown"), { withinMs: 2000 });
    await eventually(
      () => {
        watched.ip("link", "set", "lo", "mtu", "65536");
        return watched.told.at(-1) !== "unknown";
      },
      { withinMs: 5000 },
    );
    expect(watched.told.length).toBeLessThan(30);
  });
});

test("a watched namespace uses one descriptor, which is closed with the watch", () => {
  const namespaces = new Namespaces();
  const stop = new AbortController();
  try {
    const links = createLinkWatch();
    const opened = Array.from({ length: 8 }, (_, at) =>
      namespaces.open(namespaces.add(`n${String(at)}`)),
    );
    links.watch(opened[0] ?? { fd: -1, inode: "" }, () => undefined, stop.signal);
    const count = (): number => readdirSync("/proc/self/fd").length;
    const before = count();
    for (const netns of opened) links.watch(netns, () => undefined, stop.signal);
    expect(count() - before).toBe(8);
    stop.abort();
    expect(count() - before).toBe(-1);
  } finally {
    stop.abort();
    namespaces.close();
  }
});

test("rejects a descriptor of another namespace and an invalid one", () => {
  const namespaces = new Namespaces();
  const file = openSync("/dev/null", "r");
  const { signal } = new AbortController();
  const watch = (netns: NetnsHandle): void => {
    createLinkWatch().watch(netns, () => undefined, signal);
  };
  try {
    const { fd } = namespaces.open(namespaces.add("one"));
    const refused = expect.objectContaining({ code: "OS_DESCRIPTOR_STALE" }) as unknown;
    expect(() => {
      watch({ fd, inode: "1" });
    }).toThrow(refused);
    expect(() => {
      watch({ fd: file, inode: "1" });
    }).toThrow(refused);
  } finally {
    closeSync(file);
    namespaces.close();
  }
});
