// SPDX-License-Identifier: Apache-2.0
// Traffic of a guest behind its pod's addresses in both directions and families.
import { spawn, type ChildProcess } from "node:child_process";
import type { MasqueradeWiring } from "@patchbay/core/nics";
import { createPodNetwork } from "@patchbay/podnet";
import type { NetnsHandle } from "@patchbay/core/interfaces";
import { eventually, run } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { dyingAfter } from "./dying-agent.ts";
import { addNic, makeContainedNetwork, makeNetwork, Namespaces, ping } from "./links.ts";

const GUEST_MAC = "02:00:00:00:5e:01";
const POD_MAC = "02:00:00:00:aa:05";
const WIRING: MasqueradeWiring = {
  kind: "masquerade",
  podInterfaceName: "eth0",
  bridgeName: "k6t-eth0",
  tapName: "tap0",
  mac: GUEST_MAC,
  mtu: 1400,
  owner: 107,
  queues: 1,
  ipv4: { gateway: "10.0.2.1/24", guest: "10.0.2.2" },
  ipv6: { gateway: "fd10:0:2::1/120", guest: "fd10:0:2::2" },
  ports: [],
};
const POD = { ipv4: "10.88.0.5", ipv6: "fd88::5" };
const SERVER = { ipv4: "10.88.0.1", ipv6: "fd88::1" };
/** Sends one line on every connection. */
const PORT = 8080;

const namespaces = new Namespaces();
const servers: ChildProcess[] = [];
let host: string;
let pod: string;
let guest: string;
let netns: NetnsHandle;

function serve(at: string, word: string): void {
  const script = `require("net").createServer((s) => { s.on("error", () => 0); s.end("${word} " + s.remoteAddress); }).listen(${String(PORT)}, "::")`;
  servers.push(
    spawn("ip", ["netns", "exec", at, process.execPath, "-e", script], { stdio: "ignore" }),
  );
}

/** A server's reply to a client in the namespace; empty without one. */
function ask(from: string, address: string, port = PORT): string {
  try {
    return run("ip", "netns", "exec", from, "busybox", "nc", "-w", "2", address, String(port));
  } catch {
    return "";
  }
}

/** A pod on the host's bridge, and a guest whose NIC is the peer of the veth that replaces its tap. */
function addPod(): void {
  addNic({ host, pod }, { name: "eth0", kind: "veth", mac: POD_MAC });
  const set = (at: string, ...text: readonly string[]): string => run("ip", "-n", at, ...text);
  set(host, "addr", "add", `${SERVER.ipv4}/24`, "dev", "br0");
  set(host, "addr", "add", `${SERVER.ipv6}/64`, "dev", "br0", "nodad");
  set(pod, "addr", "add", `${POD.ipv4}/24`, "dev", "eth0");
  set(pod, "addr", "add", `${POD.ipv6}/64`, "dev", "eth0", "nodad");
  set(pod, "link", "set", "eth0", "mtu", "1400", "up");
  const peer = ["peer", "name", "eth0", "address", GUEST_MAC, "mtu", "1400", "netns", guest];
  set(pod, "link", "add", "tap0", "type", "veth", ...peer);
  set(guest, "addr", "add", "10.0.2.2/24", "dev", "eth0");
  set(guest, "addr", "add", "fd10:0:2::2/120", "dev", "eth0", "nodad");
  set(guest, "link", "set", "eth0", "up");
  set(guest, "route", "add", "default", "via", "10.0.2.1");
  set(guest, "-6", "route", "add", "default", "via", "fe80::1", "dev", "eth0");
}

async function isWired(wiring: MasqueradeWiring = WIRING): Promise<boolean> {
  return (await makeNetwork().observe(netns)).isWired(wiring);
}

beforeAll(async () => {
  const made = namespaces.add("host");
  run("ip", "-n", made, "link", "add", "br0", "type", "bridge");
  run("ip", "-n", made, "link", "set", "br0", "up");
  [host, pod, guest] = [made, namespaces.add("pod"), namespaces.add("guest")];
  netns = namespaces.open(pod);
  addPod();
  await makeNetwork().wireTap(netns, WIRING);
  serve(host, "server");
  serve(guest, "guest");
  await eventually(() => ask(guest, SERVER.ipv4) !== "" && ask(host, POD.ipv4) !== "", {
    withinMs: 20_000,
  });
});

afterAll(() => {
  for (const server of servers) server.kill("SIGKILL");
  namespaces.close();
});

describe("a guest behind the pod", () => {
  test.each(["ipv4", "ipv6"] as const)("reaches a server with the pod's address: %s", (family) => {
    expect(ask(guest, SERVER[family])).toMatch(new RegExp(`^server (::ffff:)?${POD[family]}$`));
  });

  test.each(["ipv4", "ipv6"] as const)("is reached at the pod's address: %s", (family) => {
    expect(ask(host, POD[family])).toMatch(new RegExp(`^guest (::ffff:)?${SERVER[family]}$`));
  });

  test("is reachable from the pod at 127.0.0.1, as from its gateway", () => {
    expect(ask(pod, "127.0.0.1")).toBe("guest ::ffff:10.0.2.1");
  });

  test("passes pings both ways up to the pod NIC's MTU", () => {
    expect(ping(guest, "-s", "1372", SERVER.ipv4)).toContain(" 0% packet loss");
    expect(ping(guest, "-6", SERVER.ipv6)).toContain(" 0% packet loss");
    expect(ping(host, POD.ipv4)).toContain(" 0% packet loss");
  });

  test("is restricted by policies, which see its peers' addresses and not its own pod", async () => {
    const policy = { ingress: [{ peers: [SERVER.ipv4] }], egress: [] };
    await makeNetwork().wireTap(netns, { ...WIRING, policy });
    expect(ask(host, POD.ipv4)).toContain("guest");
    expect(ask(pod, "127.0.0.1")).toBe("guest ::ffff:10.0.2.1");
    expect(ask(guest, SERVER.ipv4)).toBe("");
    await makeNetwork().applyPolicy(netns, WIRING);
    expect(ask(guest, SERVER.ipv4)).toContain("server");
  });

  test("is unreachable at unlisted ports and at its own address", () => {
    run("ip", "-n", host, "route", "add", "10.0.2.2/32", "via", POD.ipv4);
    expect(ask(host, "10.0.2.2")).toBe("");
  });

  test("cannot reach the pod's loopback", () => {
    run(
      "ip",
      "netns",
      "exec",
      guest,
      "sh",
      "-c",
      "echo 1 >/proc/sys/net/ipv4/conf/eth0/route_localnet",
    );
    run("ip", "-n", guest, "addr", "del", "127.0.0.1/8", "dev", "lo");
    run("ip", "-n", guest, "route", "add", "127.0.0.1/32", "via", "10.0.2.1");
    serve(pod, "pod");
    expect(() => ping(guest, "127.0.0.1")).toThrow("Command failed");
  });

  test("accepts only the listed ports when there is a list", async () => {
    const other = { protocol: "tcp", first: 81, last: 90 } as const;
    const own = { protocol: "tcp", first: PORT, last: PORT } as const;
    await makeNetwork().wireTap(netns, { ...WIRING, ports: [other] });
    expect(ask(host, POD.ipv4)).not.toContain("guest");
    await makeNetwork().wireTap(netns, { ...WIRING, ports: [other, own] });
    expect(ask(host, POD.ipv4)).toContain("guest");
    expect(await isWired()).toBe(false);
    await makeNetwork().wireTap(netns, WIRING);
    expect(ask(host, POD.ipv6)).toContain("guest");
  });

  test("is detected as wired, and not when any part is missing", async () => {
    const inPod = (...text: readonly string[]): string => run("ip", "netns", "exec", pod, ...text);
    const breaks: readonly (readonly string[])[] = [
      ["nft", "flush", "chain", "inet", "patchbay-eth0", "inward"],
      ["nft", "add", "rule", "inet", "patchbay-eth0", "between", "drop"],
      ["nft", "delete", "table", "inet", "patchbay-eth0"],
      ["ip", "addr", "del", "10.0.2.1/24", "dev", "k6t-eth0"],
      ["ip", "addr", "del", "fe80::1/64", "dev", "k6t-eth0"],
      ["sh", "-c", "echo 0 >/proc/sys/net/ipv4/conf/eth0/forwarding"],
      ["sh", "-c", "echo 0 >/proc/sys/net/ipv6/conf/all/forwarding"],
      ["bridge", "fdb", "del", GUEST_MAC, "dev", "tap0", "master"],
      ["ip", "link", "set", "tap0", "nomaster"],
    ];
    expect(await isWired()).toBe(true);
    for (const text of breaks) {
      inPod(...text);
      expect({ words: text, isWired: await isWired() }).toEqual({ words: text, isWired: false });
      await makeNetwork().wireTap(netns, WIRING);
      expect({ words: text, isWired: await isWired() }).toEqual({ words: text, isWired: true });
    }
    expect(ask(host, POD.ipv4)).toContain("guest");
  });

  test("leaves nothing behind and restores the pod's addresses", async () => {
    await makeNetwork().unwireTap(netns, WIRING);
    await makeNetwork().unwireTap(netns, WIRING);
    const links = await makeNetwork().listLinks(netns);
    expect(links.map(({ name }) => name)).toEqual(["eth0", "lo"]);
    expect(links[0]?.addresses).toContain(`${POD.ipv4}/24`);
    expect(run("ip", "netns", "exec", pod, "nft", "list", "ruleset")).toBe("");
    const forwarding = "cat /proc/sys/net/ipv4/conf/eth0/forwarding";
    expect(run("ip", "netns", "exec", pod, "sh", "-c", forwarding).trim()).toBe("0");
  });
});

test("an agent in a container writes sysctls through the specified process, independent of process 1", async () => {
  const own = new Namespaces();
  try {
    const name = own.add("contained");
    run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "far");
    run("ip", "-n", name, "addr", "add", "10.88.0.5/24", "dev", "eth0");
    const at = own.open(name);
    await expect(makeContainedNetwork().wireTap(at, WIRING)).rejects.toThrow(
      "Read-only file system",
    );
    await makeContainedNetwork(process.pid).wireTap(at, WIRING);
    expect((await makeNetwork().observe(at)).isWired(WIRING)).toBe(true);
  } finally {
    own.close();
  }
});

describe("an interrupted wiring", () => {
  const own = new Namespaces();
  const guard = { macs: [GUEST_MAC], allowsServers: false, addresses: ["10.0.2.2"] };
  const wiring: MasqueradeWiring = { ...WIRING, guard };
  afterAll(() => {
    own.close();
  });

  /** The observed state after so many commands, and the result after rewiring and unwiring. */
  async function cutAfter(commands: number) {
    const name = own.add(`cut${String(commands)}`);
    run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "far");
    run("ip", "-n", name, "addr", "add", "10.88.0.5/24", "dev", "eth0");
    const at = own.open(name);
    const dying = createPodNetwork(dyingAfter(commands));
    const isCut = await dying.wireTap(at, wiring).then(
      () => false,
      () => true,
    );
    const observed = (await makeNetwork().observe(at)).isWired(wiring);
    await makeNetwork().wireTap(at, wiring);
    const isWired = (await makeNetwork().observe(at)).isWired(wiring);
    await makeNetwork().unwireTap(at, wiring);
    const rules = run("ip", "netns", "exec", name, "nft", "list", "ruleset");
    const links = (await makeNetwork().listLinks(at)).map((link) => link.name);
    return { isCut, seen: observed, after: { isWired, rules, links } };
  }

  test("is detected as incomplete after any of its commands and completed by the next", async () => {
    const outcomes = [await cutAfter(0)];
    while (outcomes.at(-1)?.isCut === true) outcomes.push(await cutAfter(outcomes.length));
    expect(outcomes.length).toBeGreaterThan(15);
    expect(outcomes.map(({ seen: observed }) => observed)).toEqual(
      outcomes.map(({ isCut }) => !isCut),
    );
    const after = { isWired: true, rules: "", links: ["eth0", "far", "lo"] };
    expect(outcomes.map((outcome) => outcome.after)).toEqual(outcomes.map(() => after));
  });
});
