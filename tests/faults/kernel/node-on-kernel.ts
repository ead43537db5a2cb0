// SPDX-License-Identifier: Apache-2.0
// A node with real network namespaces, links, CNI plugins, leases and files; only libvirt and its guest are fakes.
import { closeSync, fstatSync, mkdtempSync, openSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createCni } from "@patchbay/cni";
import { createFiles, createNamespaces, createNetlink, createProcessRunner } from "@patchbay/os";
import {
  createDhcpServers,
  createDefaultRoutes,
  createNodeNics,
  createPodNetwork,
} from "@patchbay/podnet";
import type {
  AddressServers,
  Hypervisor,
  LauncherPod,
  FrameWatch,
  LinkWatch,
  Netlink,
  ProcessRunner,
} from "@patchbay/core/interfaces";
import { createFakeSandboxes } from "@patchbay/cri/testing";
import { createFakeHypervisor } from "@patchbay/libvirt/testing";
import { createFakeLaunchers, createFakeVhostSockets } from "@patchbay/os/testing";
import { run } from "@patchbay/support";
import { createFakeRelays } from "@patchbay/virt-handler/testing";
import { openingTaps } from "../../../packages/control-plane/virt-handler/src/testing/opening-taps.ts";
import type { Life } from "../life.ts";
import { NODE, type Ground, type TestNode } from "../memory/node.ts";
import { inventoryOfNetns } from "../netns-inventory.ts";
import { OpenTaps } from "./taps.ts";

const DOMAIN = "default_vm1";
/** Debian's paths. */
const CNI_BIN_DIRS = ["/opt/cni/bin", "/usr/lib/cni"];
/** Only the agents change links here, so that undetected changes do not occur. */
const UNWATCHED: LinkWatch = { watch: () => ({ discardEvents: () => undefined }) };
const UNHEARD: FrameWatch = { watch: () => ({ setFilter: () => undefined }) };

function ip(...args: readonly string[]): string {
  return run("ip", ...args);
}

/** Read-only: it only prints. */
function isLook(argv: readonly string[]): boolean {
  return argv.some((word) => word === "-j" || word.includes(" -j "));
}

/** Programs that an agent runs; each one counts as an action unless it only reads. */
function countedRunner(life: Life): ProcessRunner {
  const runner = createProcessRunner();
  const [looks, actions] = [life.bindLooks(runner), life.bind(runner)];
  return {
    run: (command) => (isLook(command.argv) ? looks : actions).run(command),
    killProcessFamily: (family) => runner.killProcessFamily(family),
  };
}

/** Read requests. Source: linux/rtnetlink.h, RTM_GETLINK, RTM_GETADDR, RTM_GETNEIGH */
const REQUESTS = [18, 22, 30];

/** Netlink sessions; each message counts as an action unless it only reads. */
function countedNetlink(life: Life): Netlink {
  const netlink = createNetlink();
  const [looks, actions] = [life.bindLooks(netlink), life.bind(netlink)];
  return {
    exchangeMessages: (netns, protocol, messages) => {
      const isRequest = messages.every(([, , , , type = 0]) => REQUESTS.includes(type));
      const hands = isRequest || protocol === "netfilter" ? looks : actions;
      return hands.exchangeMessages(netns, protocol, messages);
    },
    makeTap: (netns, tap) => actions.makeTap(netns, tap),
    sendFrames: (netns, link, frames) => actions.sendFrames(netns, link, frames),
    exchangeFrames: (exchange) => looks.exchangeFrames(exchange),
    readSettings: (netns, patterns) => looks.readSettings(netns, patterns),
  };
}

/** A pod's namespace and its links to the host. */
interface Pod {
  readonly path: string;
  readonly fd: number;
  readonly inode: string;
  readonly socketFd: number;
}

/** Creates a node without pods; its names on this machine begin with `prefix`, at most 8 letters. */
export class NodeOnKernel implements TestNode {
  readonly name = NODE;
  readonly #prefix: string;
  readonly #directory = mkdtempSync(join(tmpdir(), "patchbay-faults-"));
  readonly #sandboxes = createFakeSandboxes();
  readonly #launchers = createFakeLaunchers();
  readonly #hypervisor = createFakeHypervisor();
  readonly #taps = new OpenTaps();
  readonly #addressServers: AddressServers;
  readonly #pods = new Map<string, Pod>();
  #made = 0;

  constructor(prefix: string) {
    this.#prefix = prefix;
    const processFamily = `faults-servers-${prefix}`;
    const [runner, namespaces] = [createProcessRunner(), createNamespaces()];
    this.#addressServers = createDhcpServers({ runner, namespaces, processFamily });
  }

  groundFor(life: Life): Ground {
    const runner = countedRunner(life);
    const netlink = countedNetlink(life);
    const files = life.bind(createFiles());
    return {
      files,
      podNetwork: createPodNetwork({ runner, netlink }),
      defaultRoutes: createDefaultRoutes(netlink),
      nodeNics: createNodeNics({ netlink, files, root: "" }),
      cni: createCni({ runner, binDirs: CNI_BIN_DIRS, family: `faults-${this.#prefix}` }),
      namespaces: createNamespaces(),
      sandboxes: this.#sandboxes,
      launchers: this.#launchers,
      linkWatch: UNWATCHED,
      frameWatch: UNHEARD,
      vhostSockets: createFakeVhostSockets(),
      hypervisor: life.bind(this.#openingTaps()),
      addressServers: life.bind(this.#addressServers),
      relays: createFakeRelays(),
      stateDir: join(this.#directory, "state"),
    };
  }

  networkConfig(name: string): Readonly<Record<string, unknown>> {
    const bridge = `${this.#prefix}-${name}`;
    const subnet = name === "blue" ? "10.79.1.0/24" : "10.79.2.0/24";
    const ipam = { type: "host-local", subnet, dataDir: join(this.#directory, "leases") };
    return { cniVersion: "1.0.0", name, type: "bridge", bridge, ipam };
  }

  start(pod: LauncherPod): Promise<void> {
    this.#made += 1;
    const id = `${this.#prefix}-${String(this.#made)}`;
    ip("netns", "add", id);
    ip("-n", id, "link", "set", "lo", "up");
    const path = `/run/netns/${id}`;
    const fd = openSync(path, "r");
    const inode = String(fstatSync(fd).ino);
    const socketFd = 10_000 + this.#made;
    this.#pods.set(pod.uid, { path, fd, inode, socketFd });
    const { namespace, name, uid } = pod;
    const sandbox = { id, podUid: uid, pod: { namespace, name } };
    this.#sandboxes.put({ ...sandbox, netnsPath: path, netnsInode: inode });
    this.#hypervisor.daemonAt({ kind: "socket", fd: socketFd });
    this.#launchers.start(pod, { socketFd, netns: { fd, inode } });
    return Promise.resolve();
  }

  async end(podUid: string): Promise<void> {
    const { socketFd = -1, path } = this.#pods.get(podUid) ?? {};
    this.#hypervisor.daemonAt({ kind: "socket", fd: socketFd }).stop();
    this.#launchers.take(podUid);
    await this.#taps.closeAll(path);
  }

  remove(podUid: string): Promise<void> {
    const pod = this.#pods.get(podUid);
    this.#pods.delete(podUid);
    this.#sandboxes.take(podUid);
    if (pod === undefined) return Promise.resolve();
    closeSync(pod.fd);
    ip("netns", "del", pod.path.slice("/run/netns/".length));
    return Promise.resolve();
  }

  inventory(): Promise<unknown> {
    const pods = [...this.#pods.values()].map(({ socketFd, ...netns }) => {
      const daemon = this.#hypervisor.daemonAt({ kind: "socket", fd: socketFd });
      const xml = {
        live: daemon.readXml(DOMAIN, "live"),
        config: daemon.readXml(DOMAIN, "config"),
      };
      return { ...inventoryOfNetns(netns), ...xml };
    });
    const files = readdirSync(this.#directory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name).slice(this.#directory.length))
      .sort();
    return Promise.resolve({ pods, files, ports: this.#portCount() });
  }

  async close(): Promise<void> {
    await this.#taps.closeAll();
    await this.#addressServers.killLeftovers();
    for (const uid of [...this.#pods.keys()]) await this.remove(uid);
    for (const name of ["blue", "red"]) {
      const bridge = `${this.#prefix}-${name}`;
      if (ip("-j", "link").includes(`"${bridge}"`)) ip("link", "del", bridge);
    }
    rmSync(this.#directory, { recursive: true });
  }

  /** Number of ports of the host's bridges. */
  #portCount(): number {
    const links = JSON.parse(ip("-j", "link")) as readonly { readonly master?: string }[];
    return links.filter(({ master = "" }) => master.startsWith(this.#prefix)).length;
  }

  #openingTaps(): Hypervisor {
    const hypervisor = this.#hypervisor;
    return {
      open: async (address) => {
        const { path = "" } =
          [...this.#pods.values()].find(
            ({ socketFd }) => address.kind === "socket" && address.fd === socketFd,
          ) ?? {};
        return openingTaps(await hypervisor.open(address), {
          daemon: hypervisor.daemonAt(address),
          openTap: (name) => this.#taps.open(path, name),
          rewriteXml: (xml) => xml,
        });
      },
      close: () => hypervisor.close(),
    };
  }
}
