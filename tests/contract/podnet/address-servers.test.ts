// SPDX-License-Identifier: Apache-2.0
// dnsmasq gives a guest the settings stored for its pod NIC, and serves no other client.
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { names } from "@patchbay/api";
import type { NetworkStatus } from "@patchbay/api/annotations";
import {
  collectIfaceFacts,
  listExpectedWirings,
  withWired,
  type ServedNic,
} from "@patchbay/core/nics";
import { EMPTY_GUEST_VIEW } from "@patchbay/core/guest";
import { createNamespaces, createProcessRunner } from "@patchbay/os";
import { createDhcpServers } from "@patchbay/podnet";
import type { AddressServer, Command, ProcessRunner } from "@patchbay/core/interfaces";
import { describeAddressServersContract, SERVED_NIC } from "@patchbay/podnet/testing";
import { aPod, aVmi, eventually, run } from "@patchbay/support";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { buildDnsmasqArguments } from "../../../packages/adapters/podnet/src/dnsmasq.ts";
import {
  buildRecordedLease,
  listServerAddresses,
} from "../../../packages/control-plane/core/src/nics/addresses/lease.ts";
import {
  fitSearch,
  limitOptions,
  buildServedNics,
} from "../../../packages/control-plane/core/src/nics/addresses/served-nic.ts";
import {
  attachmentStatuses,
  podNetworkFacts,
} from "../../../packages/control-plane/core/src/status/vmi.ts";
import { askIpv4, askIpv6 } from "./dhcp-guest.ts";
import { addHost, addNic, makeNetwork, Namespaces, PREFIX } from "./links.ts";

const MANIFESTS = join(import.meta.dirname, "../../../packages/common/manifests/base");
const processFamily = `${PREFIX}-dhcp`;
const options = {
  runner: createProcessRunner(),
  namespaces: createNamespaces(),
  processFamily,
};
const servers = createDhcpServers(options);

/** Pids of this test's servers. */
function serverPids(): readonly string[] {
  const pids = run("sh", "-c", "pidof dnsmasq || true").trim().split(" ");
  return pids.filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, "latin1").includes(processFamily);
    } catch {
      return false;
    }
  });
}

function parentOf(pid: string): string {
  return /^PPid:\t(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "";
}

/** Capabilities of virt-handler's container on a cluster. */
function readAgentCapabilities(): readonly string[] {
  const text = readFileSync(join(MANIFESTS, "virt-handler.yaml"), "utf8");
  return [...(/^ +add:\n((?: +[-#].*\n)+)/m.exec(text)?.[1] ?? "").matchAll(/- (\w+)$/gm)].map(
    ([, name]) => name ?? "",
  );
}

interface Pair {
  readonly pod: string;
  readonly guest: string;
}

/** A bridge in the pod with the guest's NIC. */
function addPairNic({ pod, guest }: Pair, { bridgeName, mac }: ServedNic, at: number): void {
  const [tap, nic] = [`tap${String(at)}`, `eth${String(at)}`];
  run("ip", "-n", pod, "link", "add", bridgeName, "type", "bridge");
  run("ip", "-n", pod, "addr", "add", "169.254.75.10/32", "dev", bridgeName);
  const peer = ["peer", "name", nic, "address", mac, "netns", guest];
  run("ip", "-n", pod, "link", "add", tap, "type", "veth", ...peer);
  run("ip", "-n", pod, "link", "set", tap, "master", bridgeName, "up");
  run("ip", "-n", pod, "link", "set", bridgeName, "up");
  run("ip", "-n", guest, "link", "set", nic, "up");
}

/** A pod with a bridge for each NIC, and the guest's NICs: eth0, eth1, ... */
function makePair(namespaces: Namespaces, nics: readonly ServedNic[] = [SERVED_NIC]): Pair {
  const pair = { pod: namespaces.add("pod"), guest: namespaces.add("guest") };
  for (const [at, nic] of nics.entries()) addPairNic(pair, nic, at);
  return pair;
}

/** The settings served to a guest whose launcher pod has this entry in its networks annotation. */
function servedNicOf(entry: NetworkStatus): ServedNic {
  const podInterfaceName = "pod7692c3ad354";
  const pod = aPod();
  const text = JSON.stringify([{ ...entry, interface: podInterfaceName }]);
  const annotations = { ...pod.metadata.annotations, [names.NETWORK_STATUS_ANNOTATION]: text };
  const vmi = aVmi({ nics: [{ name: "one", mac: SERVED_NIC.mac }] });
  const facts = podNetworkFacts({ ...pod, metadata: { ...pod.metadata, annotations } });
  const attachments = attachmentStatuses({ vmi, bindings: {} }, facts);
  const claimed = { podInterfaceName, index: 3, addresses: ["10.9.0.5/24"], routes: [] };
  const ifaces = collectIfaceFacts({
    vmi: { ...vmi, status: { attachments: [...attachments] } },
    links: [{ name: podInterfaceName, index: 3, mtu: 1400, carrier: true }],
    remembered: [claimed],
    nics: [],
    guest: EMPTY_GUEST_VIEW,
    bindings: {},
  });
  const wired = new Set(listExpectedWirings(ifaces).map(({ tapName }) => tapName));
  const [nic] = buildServedNics({ vmi, ifaces: withWired(ifaces, wired) });
  if (nic === undefined) throw new Error("nothing is served");
  return nic;
}

describeAddressServersContract("dnsmasq", () => {
  const namespaces = new Namespaces();
  const { pod, guest } = makePair(namespaces);
  return Promise.resolve({
    servers,
    netns: namespaces.open(pod),
    requestAddress: () => {
      const { ip, mask } = askIpv4(guest) ?? {};
      const isReported = ip !== undefined && mask !== undefined;
      return Promise.resolve(isReported ? `${ip}/${mask}` : undefined);
    },
    kill: () => {
      for (const pid of serverPids()) process.kill(Number(pid), "SIGKILL");
      return Promise.resolve();
    },
    close: async () => {
      await servers.killLeftovers();
      namespaces.close();
    },
  });
});

describe("a server", () => {
  const namespaces = new Namespaces();
  const running: AddressServer[] = [];
  const start = async (pod: string, nic: ServedNic): Promise<AddressServer> => {
    const server = await servers.start(namespaces.open(pod), nic);
    running.push(server);
    return server;
  };
  afterEach(async () => {
    for (const server of running.splice(0)) await server.stop();
    namespaces.close();
  });

  test("has its own user, three capabilities, and only the namespace", async () => {
    const { pod, guest } = makePair(namespaces);
    await start(pod, SERVED_NIC);
    const [pid = "", ...more] = serverPids();
    expect(more).toEqual([]);
    const read = (name: string): string => readFileSync(`/proc/${pid}/${name}`, "utf8");
    const status = read("status");
    expect(status).toMatch(/^Uid:\t1879\d{6}\t/m);
    // CAP_NET_BIND_SERVICE, CAP_NET_ADMIN, CAP_NET_RAW. Source: linux/capability.h
    for (const set of ["CapPrm", "CapEff", "CapBnd"]) {
      expect(status).toContain(`${set}:\t0000000000003400`);
    }
    expect(status).toMatch(/^NoNewPrivs:\t1$/m);
    expect(status).toMatch(/^NSpid:\t\d+\t1$/m);
    const namespaceOf = (of: string, kind: string): string =>
      readlinkSync(`/proc/${of}/ns/${kind}`);
    for (const kind of ["mnt", "pid", "ipc", "net"]) {
      expect(namespaceOf(pid, kind)).not.toBe(namespaceOf("self", kind));
    }
    const listed = (place: string): readonly string[] => readdirSync(`/proc/${pid}/root${place}`);
    expect(listed("/proc").filter((name) => /^\d+$/.test(name))).toEqual(["1"]);
    const others = listed("/").filter((name) => !/^(?:s?bin|lib\w*)$/.test(name));
    expect(others.toSorted()).toEqual(["dev", "etc", "proc", "usr"]);
    expect(listed("/dev").toSorted()).toEqual(["null", "urandom"]);
    const limits = read("limits")
      .split("\n")
      .map((line) => line.split(/ {2,}/).slice(0, 3).join(" "));
    expect(limits).toEqual(
      expect.arrayContaining([
        "Max address space 67108864 67108864",
        "Max processes 4 4",
        "Max open files 256 256",
        "Max file size 0 0",
        "Max core file size 0 0",
      ]),
    );
    expect(askIpv4(guest)).toMatchObject({ ip: "10.9.0.5" });
  });

  test("holds no file system that was mounted when it started", async () => {
    const { pod } = makePair(namespaces);
    const directory = mkdtempSync(join(tmpdir(), "mounted-"));
    run("mount", "-t", "tmpfs", "none", directory);
    try {
      // Servers share a root, so another root is made while the file system is mounted.
      running.push(await createDhcpServers(options).start(namespaces.open(pod), SERVED_NIC));
    } finally {
      run("umount", directory);
    }
    const mounts = serverPids().map((pid) => readFileSync(`/proc/${pid}/mountinfo`, "utf8"));
    expect(mounts).toHaveLength(1);
    expect(mounts[0]).not.toContain(directory);
    // The kernel detaches mounts of other namespaces there.
    rmSync(directory, { recursive: true });
  });

  test("works where its agent may not mount, as in some containers", async () => {
    const { pod, guest } = makePair(namespaces);
    const directory = mkdtempSync(join(tmpdir(), "no-mount-"));
    symlinkSync("/bin/false", join(directory, "mount"));
    const env = { PATH: `${directory}:${process.env["PATH"] ?? ""}` };
    const real = createProcessRunner();
    const runner = { ...real, run: (command: Command) => real.run({ ...command, env }) };
    const withoutMounts = createDhcpServers({ ...options, runner });
    running.push(await withoutMounts.start(namespaces.open(pod), SERVED_NIC));
    expect(readFileSync(`/proc/${serverPids()[0] ?? ""}/status`, "utf8")).toMatch(
      /^NSpid:\t\d+\t1$/m,
    );
    expect(askIpv4(guest)).toMatchObject({ ip: "10.9.0.5" });
    rmSync(directory, { recursive: true });
  });

  test.each([
    { name: "has its own root on a cluster", without: [] },
    { name: "works without the capability SYS_CHROOT", without: ["SYS_CHROOT"] },
  ])("$name", async ({ without }) => {
    const { pod, guest } = makePair(namespaces);
    const allowed = readAgentCapabilities().filter((name) => !without.includes(name));
    const set = ["-all", ...allowed.map((name) => `+${name.toLowerCase()}`)].join(",");
    const real = createProcessRunner();
    const prefix = ["setpriv", "--inh-caps", set, "--bounding-set", set] as const;
    const runner: ProcessRunner = {
      ...real,
      run: (command) => real.run({ ...command, argv: [...prefix, ...command.argv] }),
    };
    running.push(
      await createDhcpServers({ ...options, runner }).start(namespaces.open(pod), SERVED_NIC),
    );
    const [pid = ""] = serverPids();
    expect(readdirSync(`/proc/${pid}/root`).includes("home")).toBe(without.length > 0);
    expect(askIpv4(guest)).toMatchObject({ ip: "10.9.0.5" });
  });

  test.each(["unshare", "nsenter"])(
    "starts with a root after %s could not be run once",
    async (program) => {
      const { pod, guest } = makePair(namespaces);
      const real = createProcessRunner();
      let failures = 0;
      const runner: ProcessRunner = {
        ...real,
        run: (command) => {
          if (failures > 0 || command.argv[0] !== program) return real.run(command);
          failures += 1;
          return Promise.reject(new Error("no process"));
        },
      };
      const unlucky = createDhcpServers({ ...options, runner });
      await expect(unlucky.start(namespaces.open(pod), SERVED_NIC)).rejects.toThrow("no process");
      running.push(await unlucky.start(namespaces.open(pod), SERVED_NIC));
      expect(readdirSync(`/proc/${serverPids()[0] ?? ""}/root`)).not.toContain("home");
      expect(askIpv4(guest)).toMatchObject({ ip: "10.9.0.5" });
    },
  );

  test("leaves nothing behind when it or its parent is killed", async () => {
    const { pod } = makePair(namespaces);
    const remaining = (): string =>
      run("sh", "-c", `grep -lz '${processFamily}' /proc/[0-9]*/environ || true`);
    for (const find of [(pid: string) => pid, parentOf]) {
      const server = await start(pod, SERVED_NIC);
      process.kill(Number(find(serverPids()[0] ?? "")), "SIGKILL");
      expect(await server.ended).not.toBe("");
      await eventually(() => remaining() === "", { withinMs: 5000 });
    }
  });

  test("announces routes, MTU, names and custom options", async () => {
    const { pod, guest } = makePair(namespaces);
    const nic: ServedNic = {
      ...SERVED_NIC,
      lease: {
        ipv4: {
          address: "10.9.0.5/24",
          server: "169.254.75.10/32",
          routes: [
            { destination: "10.50.0.0/16", gateway: "10.9.0.254" },
            { destination: "169.254.1.1/32" },
            { destination: "0.0.0.0/0", gateway: "10.9.0.1" },
          ],
        },
      },
      dns: { nameservers: ["10.96.0.10", "fd00::a"], search: ["ns.svc.cluster.local", "local"] },
      options: {
        bootFileName: "boot/a.efi",
        tftpServerName: "10.9.0.3",
        ntpServers: ["10.9.0.4"],
        privateOptions: [{ option: 224, value: "1,2 three" }],
      },
    };
    await start(pod, nic);
    expect(askIpv4(guest)).toMatchObject({
      ip: "10.9.0.5",
      mask: "24",
      mtu: "1400",
      hostname: "guest1",
      router: "10.9.0.1",
      staticroutes: "10.50.0.0/16 10.9.0.254 169.254.1.1/32 0.0.0.0 0.0.0.0/0 10.9.0.1",
      dns: "10.96.0.10",
      domain: "ns.svc.cluster.local",
      search: "ns.svc.cluster.local local",
      bootfile: "boot/a.efi",
      tftp: "10.9.0.3",
      ntpsrv: "10.9.0.4",
      opt224: Buffer.from("1,2 three").toString("hex"),
    });
  });

  test("announces a gateway and name servers only at the NIC that has them", async () => {
    const ipv4 = {
      address: "10.9.0.5/24",
      server: "169.254.75.10/32",
      routes: [{ destination: "0.0.0.0/0", gateway: "10.9.0.1" }],
    };
    const dns = { nameservers: ["10.96.0.10"], search: ["cluster.local"] };
    const inner = { ipv4: { ...ipv4, address: "10.8.0.5/24", routes: [] } };
    const own = { bridgeName: "k6t-1", mac: "02:00:00:00:5e:02", lease: inner };
    const nics = [
      { ...SERVED_NIC, lease: { ipv4 }, dns },
      { ...SERVED_NIC, ...own },
    ];
    const { pod, guest } = makePair(namespaces, nics);
    for (const nic of nics) await start(pod, nic);
    const out = ["router", "staticroutes", "dns", "search", "domain"];
    const reported = (nic: string): readonly unknown[] => {
      const lease = askIpv4(guest, nic) ?? {};
      return [lease["ip"], ...out.filter((name) => name in lease)];
    };
    expect(reported("eth0")).toEqual(["10.9.0.5", ...out]);
    expect(reported("eth1")).toEqual(["10.8.0.5"]);
  });

  test("announces the name servers that the pod's annotation has for the network", async () => {
    // Pod authors can forge the annotation: invalid addresses and names must not reach dnsmasq.
    const nameservers = ["10.9.0.53", "1.1.1.1,option:router", 7];
    const search = ["corp.example", "lab.example", "a,b", "-x"];
    const nic = servedNicOf({ name: "default/blue", dns: { nameservers, search } });
    const { pod, guest } = makePair(namespaces, [nic]);
    await start(pod, nic);
    expect(askIpv4(guest)).toMatchObject({
      dns: "10.9.0.53",
      domain: "corp.example",
      search: "corp.example lab.example",
    });
  });

  test("receives at most one name per host", async () => {
    const { pod } = makePair(namespaces);
    const nic = { ...SERVED_NIC, hostname: "guest1,10.9.0.6" };
    await expect(servers.start(namespaces.open(pod), nic)).rejects.toMatchObject({
      code: "PODNET_ADDRESS_SERVER_FAILED",
    });
    expect(serverPids()).toEqual([]);
  });

  test("truncates routes, domains and NTP servers to what an option holds", async () => {
    const numbers = Array.from({ length: 80 }, (_none, at) => at);
    const routes = numbers.map((at) => ({
      destination: `10.${String(at + 50)}.0.0/24`,
      gateway: "10.9.0.1",
    }));
    const search = numbers.map((at) => `n${String(at)}.${"a".repeat(40)}`);
    const ntpServers = numbers.map((at) => `10.9.1.${String(at)}`);
    // The client accepts 576 bytes, enough for one such option, not for two.
    const changes: readonly Partial<ServedNic>[] = [
      { lease: { ipv4: { address: "10.9.0.5/24", server: "169.254.75.10/32", routes } } },
      { dns: { nameservers: [], search } },
      { options: { ntpServers } },
      { options: { ntpServers }, dns: { nameservers: [], search } },
    ];
    const nics = changes.map((change, at) =>
      limitOptions({ ...SERVED_NIC, bridgeName: `k6t-${String(at)}`, ...change }),
    );
    const { pod, guest } = makePair(namespaces, nics);
    await Promise.all(nics.map((nic) => start(pod, nic)));
    const counts = ["staticroutes", "search", "ntpsrv", "search"].map((option, at) => {
      const lease = askIpv4(guest, `eth${String(at)}`) ?? {};
      return lease[option]?.split(" ").length;
    });
    // The options of the last NIC do not fit together: its third omission.
    expect(counts).toEqual([31 * 2, 37, 63, undefined]);
    expect(nics.map(({ omissions: omissions }) => omissions?.length)).toEqual([1, 1, 1, 3]);
  });

  test("accepts each list of search domains that was truncated to fit", () => {
    const label = fc.stringMatching(/^[a-z]{1,20}$/);
    const domain = fc
      .tuple(fc.array(label, { maxLength: 3 }), fc.constantFrom("lan", "svc.cluster.local", "b.c"))
      .map(([labels, parent]) => [...labels, parent].join("."));
    const isAccepted = (search: readonly string[]): boolean => {
      const nic = { ...SERVED_NIC, dns: { nameservers: [], search } };
      const options = buildDnsmasqArguments(nic).filter((word) =>
        word.startsWith("--dhcp-option="),
      );
      const words = ["--test", "--conf-file=/dev/null", ...options];
      return run("sh", "-c", 'dnsmasq "$@" 2>&1 || true', "sh", ...words).includes("check OK");
    };
    fc.assert(
      fc.property(fc.array(domain, { minLength: 8, maxLength: 32 }), (search) => {
        expect(isAccepted(fitSearch(search, true).fitting)).toBe(true);
      }),
      { numRuns: 40 },
    );
  });

  test("serves NICs with equal addresses or equal MACs, each with its own address", async () => {
    const ipv4 = (address: string): ServedNic["lease"] => ({
      ipv4: { address, server: "169.254.75.10/32", routes: [] },
    });
    const copy = { iface: "b", bridgeName: "k6t-1", mac: "02:00:00:00:5e:02" };
    const bond = { iface: "c", bridgeName: "k6t-2", lease: ipv4("10.7.0.9/24") };
    const nics = [SERVED_NIC, { ...SERVED_NIC, ...copy }, { ...SERVED_NIC, ...bond }];
    const { pod, guest } = makePair(namespaces, nics);
    await Promise.all(nics.map((nic) => start(pod, nic)));
    const addresses = nics.map((_nic, at) => askIpv4(guest, `eth${String(at)}`)?.["ip"]);
    expect(addresses).toEqual(["10.9.0.5", "10.9.0.5", "10.7.0.9"]);
    const users = serverPids().map((pid) => readFileSync(`/proc/${pid}/status`, "utf8"));
    expect(new Set(users.map((status) => /^Uid:\t(\d+)/m.exec(status)?.[1])).size).toBe(3);
  });

  test("serves IPv6 at NICs on one subnet, and of a prefix shorter than /64", async () => {
    const ipv6 = (address: string): ServedNic["lease"] =>
      buildRecordedLease({ podInterfaceName: "a", index: 3, addresses: [address], routes: [] }) ??
      {};
    const nics = [
      { ...SERVED_NIC, lease: ipv6("fd09::5/64") },
      { ...SERVED_NIC, bridgeName: "k6t-1", lease: ipv6("fd09::6/64") },
      { ...SERVED_NIC, bridgeName: "k6t-2", lease: ipv6("fd48::7/48") },
    ];
    const { pod, guest } = makePair(namespaces, nics);
    for (const { bridgeName, lease } of nics) {
      for (const server of listServerAddresses(lease)) {
        run("ip", "-n", pod, "addr", "add", server, "dev", bridgeName, "nodad");
      }
    }
    await Promise.all(nics.map((nic) => start(pod, nic)));
    const { mac } = SERVED_NIC;
    const addresses = ["eth0", "eth1", "eth2"].map((nic) => askIpv6(guest, nic, mac));
    expect(addresses).toEqual(["fd09::5", "fd09::6", "fd48::7"]);
  });

  test("left behind by a killed agent is ended by a successor", async () => {
    const { pod } = makePair(namespaces);
    const remaining = await servers.start(namespaces.open(pod), SERVED_NIC);
    await createDhcpServers(options).killLeftovers();
    expect(serverPids()).toEqual([]);
    expect(await remaining.ended).not.toBe("");
  });
});

describe("a NIC's CNI result", () => {
  const namespaces = new Namespaces();
  afterEach(() => {
    namespaces.close();
  });

  test.each(["veth", "macvlan"])("is read from the kernel, on %s", async (kind) => {
    const host = addHost(namespaces);
    run("ip", "-n", host, "addr", "add", "fd09::1/64", "dev", "br0", "nodad");
    const pod = namespaces.add("pod");
    addNic({ host, pod }, { name: "pod1", kind, mac: SERVED_NIC.mac });
    const ip = (...words: readonly string[]): string => run("ip", "-n", pod, ...words);
    ip("link", "set", "pod1", "up");
    ip("addr", "add", "10.9.0.5/24", "dev", "pod1");
    ip("addr", "add", "fd09::5/64", "dev", "pod1", "nodad");
    ip("route", "add", "default", "via", "10.9.0.1");
    ip("route", "add", "10.50.0.1", "via", "10.9.0.254");
    ip("-6", "route", "add", "default", "via", "fd09::1");
    const mac = run("ip", "netns", "exec", host, "cat", "/sys/class/net/br0/address").trim();
    const want = {
      addresses: ["10.9.0.5/24", "fd09::5/64"],
      routes: [
        { destination: "0.0.0.0/0", gateway: "10.9.0.1" },
        { destination: "10.50.0.1/32", gateway: "10.9.0.254" },
        { destination: "::/0", gateway: "fd09::1" },
      ],
    };
    expect(await makeNetwork().readAddresses(namespaces.open(pod), "pod1")).toMatchObject({
      podInterfaceName: "pod1",
      ...want,
      gatewayMac: mac,
    });
  });
});
