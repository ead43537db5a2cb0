// SPDX-License-Identifier: Apache-2.0
// The measured system: an API server, virt-api and virt-controller as users run them, a node and VMs.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LEASES } from "@patchbay/api";
import { createKubeClient, loadKubeConfig, type KubeClient } from "@patchbay/kube";
import { createClock } from "@patchbay/os";
import { createAuthority, issueCertificate } from "@patchbay/pki";
import { createLogger } from "@patchbay/telemetry";
import { findFreePort } from "@patchbay/support";
import { install, keepEndpoints, uninstall, type VirtApiAddress } from "./install.ts";
import { NodeSide } from "./node-side.ts";
import { openServer, writeImpersonating, type Server } from "./server.ts";
import { Service } from "./service.ts";
import { Vms } from "./vms.ts";

/** Simulated agents in the counts: requests of the node and of users. */
export interface Tally {
  count: number;
}

const clock = createClock();
const log = createLogger({ component: "perf", level: "warn" });

/** Maximum number of virt-apis. */
const VIRT_APIS = 2;
/** virt-controllers with leader election; the manifests' Role for it belongs to this namespace. */
const ELECTING = ["--leader-elect", "--lease-namespace", "patchbay"];

export class Stage {
  readonly server: Server;
  readonly vms: Vms;
  readonly nodeSent: Tally;
  readonly #directory: string;
  readonly #at: VirtApiAddress;
  readonly #people: KubeClient;
  readonly #virtApis = new Map<number, Service>();
  readonly #virtControllers: Service[] = [];

  constructor(
    server: Server,
    own: {
      readonly directory: string;
      readonly at: VirtApiAddress;
      readonly people: KubeClient;
      readonly vms: Vms;
      readonly nodeSent: Tally;
    },
  ) {
    this.server = server;
    this.#directory = own.directory;
    this.#at = own.at;
    this.#people = own.people;
    this.vms = own.vms;
    this.nodeSent = own.nodeSent;
  }

  /** The oldest running one. */
  get virtApi(): Service {
    const [first] = this.#virtApis.values();
    if (first === undefined) throw new Error("virt-api does not run");
    return first;
  }

  get virtController(): Service {
    const [first] = this.#virtControllers;
    if (first === undefined) throw new Error("virt-controller does not run");
    return first;
  }

  /** With leader election: the leader. */
  async leader(): Promise<Service | undefined> {
    await this.#startAnew();
    for (const one of this.#virtControllers) if (await one.isLeading()) return one;
    return undefined;
  }

  /** Starts one more; the server knows it when it is ready. */
  async startVirtApi(): Promise<Service> {
    const file = (name: string): string => join(this.#directory, name);
    const port = this.#at.ports.find((one) => !this.#virtApis.has(one));
    if (port === undefined) throw new Error(`${String(VIRT_APIS)} virt-apis run already`);
    const service = await Service.start("virt-api", [
      "--kubeconfig",
      file("virt-api.kubeconfig"),
      "--drain-seconds",
      "2",
      "--listen-address",
      this.#at.address,
      "--port",
      String(port),
      "--tls-cert-file",
      file("virt-api.crt"),
      "--tls-private-key-file",
      file("virt-api.key"),
    ]);
    this.#virtApis.set(port, service);
    await this.#tellEndpoints();
    return service;
  }

  async startVirtController({ elects = false } = {}): Promise<Service> {
    const kubeconfig = join(this.#directory, "virt-controller.kubeconfig");
    const flags = ["--kubeconfig", kubeconfig, ...(elects ? ELECTING : [])];
    const service = await Service.start("virt-controller", flags);
    this.#virtControllers.push(service);
    return service;
  }

  /** Ends a service like a deleted pod, which the server learns immediately, or like a crash, which it does not. */
  async end(service: Service, how: "asked" | "killed"): Promise<void> {
    const ended = how === "asked" ? service.stop() : service.kill();
    for (const [port, one] of this.#virtApis) if (one === service) this.#virtApis.delete(port);
    const index = this.#virtControllers.indexOf(service);
    if (index >= 0) this.#virtControllers.splice(index, 1);
    else if (how === "asked") await this.#tellEndpoints();
    await ended;
  }

  /** A virt-controller whose lease was taken over ends, and its kubelet restarts it. */
  async #startAnew(): Promise<void> {
    for (const one of this.#virtControllers.filter(({ hasEnded }) => hasEnded)) {
      this.#virtControllers.splice(this.#virtControllers.indexOf(one), 1);
      await this.startVirtController({ elects: true });
    }
  }

  /** The holder of the virt-controllers' Lease. */
  async holder(): Promise<string> {
    const key = { namespace: "patchbay", name: "virt-controller" };
    const lease = await this.#people.store.find(LEASES, key);
    return lease?.spec?.holderIdentity ?? "";
  }

  #tellEndpoints(): Promise<void> {
    const { address } = this.#at;
    return keepEndpoints(this.#people, { address, ports: [...this.#virtApis.keys()] });
  }

  /** Resolves when subresource requests succeed. */
  async reachable(): Promise<void> {
    const path = "/apis/subresources.kubevirt.io/v1";
    for (let tries = 0; ; tries += 1) {
      try {
        await this.#people.requestRaw({ method: "GET", path });
        return;
      } catch (error) {
        if (tries > 300) throw error;
        await clock.sleep(100, AbortSignal.timeout(10_000));
      }
    }
  }

  async stopServices(): Promise<void> {
    const all = [...this.#virtApis.values(), ...this.#virtControllers];
    await Promise.all(all.map((service) => service.stop()));
  }
}

async function makeCertificate(directory: string, address: string): Promise<VirtApiAddress> {
  const ports = await Promise.all(Array.from({ length: VIRT_APIS }, findFreePort));
  const authority = await createAuthority("perf-virt-api", clock);
  const { certPem, keyPem } = await issueCertificate(authority, {
    commonName: "virt-api",
    organizations: [],
    dnsNames: ["virt-api.patchbay.svc"],
    ipAddresses: [address],
    usages: ["server"],
    validDays: 1,
  });
  writeFileSync(join(directory, "virt-api.crt"), certPem);
  writeFileSync(join(directory, "virt-api.key"), keyPem, { mode: 0o600 });
  return { address, ports, caPem: authority.certPem };
}

async function openClient(
  server: Server,
  component: string,
): Promise<{ readonly client: KubeClient; readonly sent: Tally }> {
  const config = await loadKubeConfig({ kubeconfig: server.kubeconfig });
  const sent = { count: 0 };
  const onRequest = ({ verb }: { readonly verb: string }): void => {
    if (verb !== "watch" && verb !== "list") sent.count += 1;
  };
  return { client: createKubeClient(config, { clock, logger: log, component, onRequest }), sent };
}

async function perform(
  stage: Stage,
  node: NodeSide,
  { use, signal }: { readonly use: (stage: Stage) => Promise<void>; readonly signal: AbortSignal },
): Promise<void> {
  try {
    await stage.startVirtApi();
    await stage.startVirtController();
    await stage.reachable();
    await node.start(signal);
    await stage.vms.start(signal);
    await use(stage);
  } finally {
    // Finalizers need the controller; an embedded server is discarded as a whole.
    if (stage.server.name !== "embedded") await stage.vms.remove();
    await stage.stopServices();
  }
}

async function playOn(
  server: Server,
  directory: string,
  use: (stage: Stage) => Promise<void>,
): Promise<void> {
  const at = await makeCertificate(directory, server.address);
  for (const name of ["virt-api", "virt-controller"]) {
    const file = join(directory, `${name}.kubeconfig`);
    writeImpersonating(server, `system:serviceaccount:patchbay:${name}`, file);
  }
  const people = await openClient(server, "perf-people");
  const agents = await openClient(server, "perf-node");
  const node = new NodeSide({ client: agents.client, clock, log });
  const vms = new Vms(people.client, node, log);
  const own = { directory, at, people: people.client, vms, nodeSent: agents.sent };
  const stage = new Stage(server, own);
  const stop = new AbortController();
  try {
    await install(people.client, at);
    await perform(stage, node, { use, signal: stop.signal });
  } finally {
    stop.abort(new Error("measured"));
    if (server.name !== "embedded") await uninstall(people.client);
    await Promise.all([people.client.close(), agents.client.close()]);
  }
}

/** Sets everything up and removes it afterwards. */
export async function withStage(use: (stage: Stage) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "patchbay-perf-"));
  try {
    const server = await openServer(directory);
    try {
      await playOn(server, directory, use);
    } finally {
      await server.close();
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
