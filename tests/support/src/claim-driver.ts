// SPDX-License-Identifier: Apache-2.0
// A small DRA driver for a standalone machine: allocates each request of a claim as a veth on a bridge, moves it into
// the pod that the claim is reserved for, and reports it.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { PODS, RESOURCE_CLAIMS } from "@patchbay/api";
import type { Pod, ResourceClaim } from "@patchbay/api/kubernetes";
import {
  createCache,
  createKubeClient,
  loadKubeConfig,
  type KubeClient,
  type StartableCache,
} from "@patchbay/kube";
import { createClock } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import type { Machine } from "./machine/machine.ts";
import { netnsOfPod } from "./sandbox.ts";

interface Bridge {
  readonly name: string;
  /** Address of the bridge, without its last byte. */
  readonly subnet: string;
}

interface Devices {
  readonly requests?: readonly { readonly name: string }[];
}

function ip(...args: readonly string[]): void {
  execFileSync("ip", args);
}

export class ClaimDriver {
  static readonly NAME = "nics.test.patchbay.io";
  readonly #client: KubeClient;
  readonly #dataDir: string;
  readonly #bridge: Bridge;
  readonly #claims: StartableCache<ResourceClaim>;
  readonly #pods: StartableCache<Pod>;
  readonly #stop = new AbortController();
  /** Failures of the driver, for the test. */
  readonly failures: unknown[] = [];
  #devices = 0;
  #work: Promise<void> = Promise.resolve();

  private constructor(client: KubeClient, dataDir: string, bridge: Bridge) {
    this.#client = client;
    this.#dataDir = dataDir;
    this.#bridge = bridge;
    const logger = createSilentLogger();
    this.#claims = createCache(client.reflect(RESOURCE_CLAIMS), { logger });
    this.#pods = createCache(client.reflect(PODS), { logger });
    for (const cache of [this.#claims, this.#pods]) {
      cache.onChange(() => {
        this.#work = this.#work
          .then(() => this.#pass())
          .catch((error: unknown) => {
            if (!this.#stop.signal.aborted) this.failures.push(error);
          });
      });
      cache.start(this.#stop.signal);
    }
  }

  static async open(machine: Pick<Machine, "dataDir">, bridge: Bridge): Promise<ClaimDriver> {
    const config = await loadKubeConfig({ kubeconfig: join(machine.dataDir, "kubeconfig") });
    const client = createKubeClient(config, { logger: createSilentLogger(), clock: createClock() });
    ip("link", "add", bridge.name, "type", "bridge");
    ip("addr", "add", `${bridge.subnet}.1/24`, "dev", bridge.name);
    ip("link", "set", bridge.name, "up");
    return new ClaimDriver(client, machine.dataDir, bridge);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#work;
    await this.#client.close();
    ip("link", "del", this.#bridge.name);
  }

  async #pass(): Promise<void> {
    for (const claim of this.#claims.list()) {
      if (claim.status?.allocation === undefined) await this.#allocate(claim);
      else await this.#prepare(claim);
    }
  }

  async #patch({ metadata }: ResourceClaim, status: object): Promise<void> {
    const { name, namespace = "", resourceVersion } = metadata;
    const patch = { type: "merge", fields: { metadata: { resourceVersion }, status } } as const;
    await this.#client.store
      .patch(RESOURCE_CLAIMS, { name, namespace }, patch, { subresource: "status" })
      .catch(() => undefined); // another writer was first; its change wakes the driver
  }

  #allocate(claim: ResourceClaim): Promise<void> {
    const { devices = {} } = claim.spec as { readonly devices?: Devices };
    const results = (devices.requests ?? []).map(({ name: request }) => {
      this.#devices += 1;
      const device = `dra${String(this.#devices)}`;
      return { request, driver: ClaimDriver.NAME, pool: "machine", device };
    });
    return this.#patch(claim, { allocation: { devices: { results } } });
  }

  /** Creates the devices of a reserved claim in its pod, once the pod has a sandbox. */
  async #prepare(claim: ResourceClaim): Promise<void> {
    const { allocation, reservedFor = [], devices: reported = [] } = claim.status ?? {};
    const uid = reservedFor[0]?.uid ?? "";
    const pod = this.#pods.list().find(({ metadata }) => metadata.uid === uid);
    const isStarted = pod?.status?.phase === "Running";
    if (!isStarted || reported.length > 0) return;
    const { path } = netnsOfPod(this.#dataDir, uid);
    const devices = (allocation?.devices?.results ?? []).map(({ driver, pool, device }) => ({
      driver,
      pool,
      device,
      networkData: this.#createDevice(device, path),
    }));
    await this.#patch(claim, { devices });
  }

  #createDevice(device: string, netns: string): object {
    const number = Number(device.slice("dra".length));
    const hardwareAddress = `02:00:00:dd:00:${number.toString(16).padStart(2, "0")}`;
    const address = `${this.#bridge.subnet}.${String(100 + number)}/24`;
    const [host, inPod] = [`pbdh${String(number)}`, `pbdp${String(number)}`];
    const inside = (...args: readonly string[]): void => {
      execFileSync("nsenter", [`--net=${netns}`, "ip", ...args]);
    };
    const hasDevice = execFileSync("nsenter", [`--net=${netns}`, "ip", "-o", "link"], {
      encoding: "utf8",
    }).includes(hardwareAddress);
    if (!hasDevice) {
      ip("link", "add", host, "type", "veth", "peer", "name", inPod, "address", hardwareAddress);
      ip("link", "set", host, "master", this.#bridge.name, "up");
      ip("link", "set", inPod, "netns", netns);
      inside("link", "set", inPod, "name", device);
      inside("addr", "add", address, "dev", device);
      inside("link", "set", device, "up");
    }
    return { interfaceName: device, hardwareAddress, ips: [address] };
  }
}
