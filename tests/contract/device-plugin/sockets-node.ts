// SPDX-License-Identifier: Apache-2.0
// A node with a fake kubelet and directories of vhost-user sockets: directories and sockets are real.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { names } from "@patchbay/api";
import type { VhostDirectories, VhostSockets } from "@patchbay/core/interfaces";
import { offerAllSockets, offerSockets } from "@patchbay/device-plugin";
import { createPodDevices } from "@patchbay/device-plugin";
import { TestKubelet, TestPodResources } from "@patchbay/device-plugin/testing";
import { createClock, createFiles, createVhostDirectories, createVhostSockets } from "@patchbay/os";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { eventually } from "@patchbay/support";

export const SOCKETS = { resource: names.VHOST_USER_RESOURCE, count: 3 };
export const ALL_SOCKETS = { resource: names.VHOST_USER_DATAPLANE_RESOURCE, count: 1 };
const SWEEP_MS = 20;
const TIMEOUT = { withinMs: 20_000 };

/** One node below its own directory; end it with `close`. */
export class SocketsNode {
  readonly directory = mkdtempSync(join(tmpdir(), "sockets-"));
  readonly kubelet = new TestKubelet(join(this.directory, "kubelet"));
  readonly log = createFakeLogger();
  readonly directories: VhostDirectories;
  readonly sockets: VhostSockets;
  podResources = new TestPodResources(this.here("/kubelet/pod-resources/kubelet.sock"));
  readonly #stop = new AbortController();
  #offering: readonly Promise<void>[] = [];

  /** The group is that of an unprivileged dataplane. */
  constructor(dataplaneGroup?: number) {
    const places = {
      runDir: this.here("/run"),
      selinuxDir: this.here("/selinux"),
      uid: names.LAUNCHER_UID,
      ...(dataplaneGroup !== undefined && { dataplaneGroup }),
    };
    this.directories = createVhostDirectories(places);
    this.sockets = createVhostSockets({ ...places, podsDir: this.here("/pods") });
  }

  /** Resolves when the kubelet counts the whole offer. */
  async start(): Promise<void> {
    await this.kubelet.start();
    await this.podResources.start();
    const clock = createClock();
    const podDevices = createPodDevices(this.here("/kubelet/pod-resources/kubelet.sock"), clock);
    const how = {
      places: { kubeletDir: this.here("/kubelet") },
      deps: {
        directories: this.directories,
        podDevices,
        files: createFiles(),
        clock,
        log: this.log,
      },
      sweepIntervalMs: SWEEP_MS,
    };
    this.#offering = [
      offerSockets(SOCKETS, how, this.#stop.signal),
      offerAllSockets(ALL_SOCKETS, how, this.#stop.signal),
    ];
    await eventually(
      () =>
        [SOCKETS, ALL_SOCKETS].every(
          ({ resource, count }) => this.kubelet.allocatable(resource) === count,
        ),
      TIMEOUT,
    );
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error("the test is over"));
    await Promise.all(this.#offering);
    this.podResources.close();
    this.kubelet.stop();
    rmSync(this.directory, { recursive: true, force: true });
    const { faults } = this.kubelet;
    if (faults.length > 0) throw new Error(`against the protocol: ${faults.join("; ")}`);
  }

  /** A node path, as seen from here. */
  here(path: string): string {
    return join(this.directory, path);
  }

  /** Where the dataplane creates sockets for the pod with that device, as seen from here. */
  madeIn(id: string): string {
    return this.here(`${names.VHOST_USER_DIR}/${id}`);
  }

  /** The part that the pod mounts. */
  shownOf(id: string): string {
    return this.here(`${names.VHOST_USER_LAUNCHER_DIR}/${id}`);
  }

  /** Admits a pod that requests one; the kubelet reports it from then on. */
  async admit(pod: string, id: string): Promise<void> {
    await this.kubelet.allocateIds(SOCKETS.resource, [{ devicesIds: [id] }]);
    this.podResources.pods.push({
      namespace: "ns1",
      name: pod,
      containers: [{ [SOCKETS.resource]: [id] }],
    });
  }

  /** The pod has ended, and the kubelet has forgotten it. */
  forget(pod: string): void {
    const { pods } = this.podResources;
    pods.splice(0, pods.length, ...pods.filter(({ name }) => name !== pod));
  }

  /** Resolves when the kubelet has been queried `times` more. */
  async asked(times: number): Promise<void> {
    const want = this.podResources.calls.length + times;
    await eventually(() => this.podResources.calls.length >= want, TIMEOUT);
  }
}
