// SPDX-License-Identifier: Apache-2.0
// A fake node: kernel, CNI, disk, libvirt and launchers in memory, all observable.
import { createFakeCni } from "@patchbay/cni/testing";
import { createFakeSandboxes } from "@patchbay/cri/testing";
import { createFakeHypervisor } from "@patchbay/libvirt/testing";
import { createFakeRelays, type Relay } from "@patchbay/virt-handler/testing";
import { names } from "@patchbay/api";
import {
  SOCKETS,
  type Relays,
} from "../../../packages/control-plane/virt-handler/src/relays/relays.ts";
import {
  createFakeFiles,
  createFakeLaunchers,
  createFakeNamespaces,
  createFakeVhostSockets,
} from "@patchbay/os/testing";
import {
  createFakeAddressServers,
  createFakeDefaultRoutes,
  createFakeFrameWatch,
  createFakeLinkWatch,
  createFakeNodeNics,
  createFakePodNetwork,
} from "@patchbay/podnet/testing";
import type {
  Hypervisor,
  HypervisorAddress,
  HypervisorConnection,
  LauncherPod,
} from "@patchbay/core/interfaces";
import { openingTaps } from "../../../packages/control-plane/virt-handler/src/testing/opening-taps.ts";
import type { Life } from "../life.ts";
import { NODE, type Ground, type TestNode } from "./node.ts";

const DOMAIN = "default_vm1";

type FakeHypervisor = ReturnType<typeof createFakeHypervisor>;
type FakeRelays = ReturnType<typeof createFakeRelays>;

/** Shared state of two nodes for migrations. */
export interface Between {
  readonly hypervisor: FakeHypervisor;
  readonly relays: FakeRelays;
}

/** No migration yet. */
export function createBetween(): Between {
  return { hypervisor: createFakeHypervisor(), relays: createFakeRelays() };
}

/** They end with the process that started them. */
function endingRelays(life: Life, relays: FakeRelays): Relays {
  const follow = async (starting: Promise<Relay>): Promise<Relay> => {
    const relay = await starting;
    life.onDeath(() => {
      relay.close();
    });
    return relay;
  };
  return {
    address: relays.address,
    receive: (request) => follow(relays.receive(request)),
    send: (request, to) => follow(relays.send(request, to)),
  };
}

/** Where a launcher finds the target launcher's libvirt. */
const PEER = `qemu+unix:///session?socket=${names.LAUNCHER_DIR}/${SOCKETS.peer}`;
let lastSocketFd = 10;

export class NodeInMemory implements TestNode {
  readonly name: string;
  readonly #relays: FakeRelays;
  readonly #podNetwork = createFakePodNetwork();
  readonly #defaultRoutes = createFakeDefaultRoutes();
  readonly #namespaces = createFakeNamespaces();
  readonly #sandboxes = createFakeSandboxes();
  readonly #launchers = createFakeLaunchers();
  readonly #hypervisor: FakeHypervisor;
  readonly #files = createFakeFiles();
  readonly #cni = createFakeCni({
    attached: ({ netnsPath = "", interfaceName }, { interfaces }) => {
      const mac = interfaces?.[0]?.mac ?? "";
      const link = { name: interfaceName, kind: "veth", mac, mtu: 1500, up: true };
      this.#podNetwork.putLink(netnsPath, link);
    },
    detached: ({ netnsPath = "", interfaceName }) => {
      this.#podNetwork.takeLink(netnsPath, interfaceName);
    },
  });
  /** Descriptor of the launcher's socket, by its pod's uid. */
  readonly #sockets = new Map<string, number>();

  constructor(name: string = NODE, between: Between = createBetween()) {
    this.name = name;
    this.#hypervisor = between.hypervisor;
    this.#relays = between.relays;
  }

  groundFor(life: Life): Ground {
    const hypervisor: Hypervisor = {
      open: async (address) => this.#openingTaps(address, await this.#hypervisor.open(address)),
      close: () => this.#hypervisor.close(),
    };
    return {
      files: life.bind(this.#files),
      podNetwork: life.bind(this.#podNetwork),
      defaultRoutes: life.bind(this.#defaultRoutes),
      nodeNics: life.bind(createFakeNodeNics()),
      cni: life.bind(this.#cni),
      namespaces: life.bindLooks(this.#namespaces),
      sandboxes: this.#sandboxes,
      launchers: this.#launchers,
      frameWatch: createFakeFrameWatch(),
      linkWatch: createFakeLinkWatch(this.#podNetwork),
      vhostSockets: life.bind(createFakeVhostSockets()),
      hypervisor: life.bind(hypervisor),
      // They end with the process that started them.
      addressServers: life.bind(createFakeAddressServers()),
      relays: life.bind(endingRelays(life, this.#relays)),
      stateDir: "/state",
    };
  }

  /** The agents' files, by path. */
  async readFiles(): Promise<ReadonlyMap<string, string>> {
    const texts = this.#files.paths.map(
      async (path) => [path, (await this.#files.readText(path)) ?? ""] as const,
    );
    return new Map(await Promise.all(texts));
  }

  /** Replaces the agents' files. No process may run. */
  async writeFiles(texts: ReadonlyMap<string, string>): Promise<void> {
    for (const path of this.#files.paths) await this.#files.remove(path);
    for (const [path, text] of texts) await this.#files.writeAtomic(path, text);
  }

  networkConfig(name: string): Readonly<Record<string, unknown>> {
    return { cniVersion: "1.0.0", name, type: "bridge" };
  }

  #openingTaps(address: HypervisorAddress, connection: HypervisorConnection): HypervisorConnection {
    const [uid = ""] =
      [...this.#sockets].find(([, fd]) => address.kind === "socket" && address.fd === fd) ?? [];
    return openingTaps(connection, {
      daemon: this.#hypervisor.daemonAt(address),
      openTap: (name) => {
        this.#podNetwork.openTap(uid, name);
      },
      rewriteXml: (xml) => xml,
    });
  }

  start(pod: LauncherPod): Promise<void> {
    const { uid, namespace, name } = pod;
    // One text for a namespace's path and inode: the fakes accept that.
    this.#namespaces.put(uid, uid);
    const sandbox = { id: `box-${uid}`, podUid: uid, pod: { namespace, name } };
    this.#sandboxes.put({ ...sandbox, netnsPath: uid, netnsInode: uid });
    const eth0 = { name: "eth0", kind: "veth", mac: "02:00:00:00:00:ee", mtu: 1500, up: true };
    this.#podNetwork.putLink(uid, eth0);
    const socketFd = (lastSocketFd += 1);
    this.#sockets.set(uid, socketFd);
    this.#hypervisor.daemonAt({ kind: "socket", fd: socketFd });
    // The last one is the target of a migration.
    this.#hypervisor.leadTo(PEER, { kind: "socket", fd: socketFd });
    this.#launchers.start(pod, { socketFd, netns: { fd: 8, inode: uid } });
    return Promise.resolve();
  }

  end(podUid: string): Promise<void> {
    const fd = this.#sockets.get(podUid) ?? -1;
    this.#hypervisor.daemonAt({ kind: "socket", fd }).stop();
    this.#launchers.take(podUid);
    return Promise.resolve();
  }

  async remove(podUid: string): Promise<void> {
    this.#sandboxes.take(podUid);
    this.#namespaces.take(podUid);
    // The kernel deletes links with their namespace.
    const links = await this.#podNetwork.listLinks({ fd: 8, inode: podUid });
    for (const { name } of links) this.#podNetwork.takeLink(podUid, name);
    this.#sockets.delete(podUid);
  }

  /** Number of guests in its pods. */
  async runningGuests(): Promise<number> {
    const states = [...this.#sockets.values()].map(async (fd) => {
      const connection = await this.#hypervisor.open({ kind: "socket", fd }).catch(() => undefined); // its pod has ended
      const found = await connection?.findDomain(DOMAIN);
      await connection?.close();
      return found?.state === "running" ? 1 : 0;
    });
    return (await Promise.all(states)).reduce<number>((sum, each) => sum + each, 0);
  }

  async inventory(): Promise<unknown> {
    const pods = [...this.#sockets].map(async ([uid, fd]) => {
      const daemon = this.#hypervisor.daemonAt({ kind: "socket", fd });
      const links = await this.#podNetwork.listLinks({ fd: 8, inode: uid });
      return {
        links: links.map((link) => ({ ...link, index: 0 })),
        live: daemon.readXml(DOMAIN, "live"),
        config: daemon.readXml(DOMAIN, "config"),
      };
    });
    return {
      pods: await Promise.all(pods),
      attachments: this.#cni.attachments.toSorted(),
      files: this.#files.paths,
      openNamespaces: this.#namespaces.openCount,
    };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
